// The list of operators as data: for bindings, tools and tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "musaic/error.h"
#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// One boxed argument.
struct Value {
  enum class Kind { kTensor, kInt, kFloat, kBoolean };
  Kind kind = Kind::kTensor;
  Tensor tensor;  // default-made: "no tensor", for optional arguments
  std::int64_t integer = 0;
  double number = 0;

  Value() = default;
  Value(const Tensor& t) : kind(Kind::kTensor), tensor(t) {}
  Value(std::int64_t i) : kind(Kind::kInt), integer(i) {}
  Value(double f) : kind(Kind::kFloat), number(f) {}
  Value(bool b) : kind(Kind::kBoolean), integer(b) {}
};

struct OpInfo {
  const char* name;
  const char* folder;  // under ops/
  const char* schema;  // torch's schema language
  /// Kinds of the C++ parameters but stream and workspace, in order.
  std::vector<Value::Kind> parameters;
  bool takes_workspace;
  /// Calls the operator; `args` must hold exactly parameters.size() values. Throws Error for a wrong kind.
  void (*call)(const Value* args, Stream stream, Workspace workspace);
};

/// All operators, in the order of the list.
const std::vector<OpInfo>& operators();
/// Throws Error naming the nearest known operators if there is none of that name.
const OpInfo& find_operator(const std::string& name);
/// Whether the backend of a device has the operator. Error for a device without a backend.
bool has_operator(const std::string& name, Device device);

/// The bytes that an operator asked for when it refused its workspace as too small, which it does before it writes or
/// launches anything; 0 if the error is about something else. An operator's refusal states them as the first number
/// of what it expected.
std::int64_t workspace_wanted(const Error& error);

}  // namespace musaic
