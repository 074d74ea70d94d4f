// The argument checker that every operator runs before anything is written or launched.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "musaic/tensor.h"

namespace musaic {

/// A named size. The first tensor that mentions it fixes its value; later ones must agree, and the error says
/// who fixed it.
class Dim {
 public:
  explicit Dim(const char* name) : name_(name) {}
  Dim(const char* name, std::int64_t value, const char* from) : name_(name), from_(from), value_(value) {}
  const char* name() const { return name_; }
  bool bound() const { return from_ != nullptr; }
  std::int64_t value() const { return value_; }
  operator std::int64_t() const { return value_; }

 private:
  friend class Check;
  const char* name_;
  const char* from_ = nullptr;  // argument that fixed the value
  int from_dim_ = -1;           // its dimension; -1: a scalar argument
  std::int64_t value_ = -1;
};

/// Checks one argument after the other; every failure names operator, argument, what came and what was
/// expected.
///
///     Check check("rmsnorm");
///     Dim num_tokens("num_tokens"), hidden_size("hidden_size");
///     check.tensor("input", input).dtype({kFloat32, kFloat16, kBFloat16}).shape({&num_tokens,
///     &hidden_size}); check.tensor("weight", weight).same_dtype("input", input).shape({&hidden_size});
class Check {
 public:
  explicit Check(const char* op) : op_(op) {}

  class Argument {
   public:
    Argument& dtype(std::initializer_list<DType> allowed);
    Argument& same_dtype(const char* other_name, const Tensor& other);
    /// Rank and every size; binds the Dims that are still free.
    Argument& shape(std::initializer_list<Dim*> dims);
    Argument& same_shape(const char* other_name, const Tensor& other);
    Argument& rank(int at_least, int at_most);
    /// The innermost dimension has stride 1 (or at most one element).
    Argument& last_dim_contiguous();
    Argument& contiguous();
    /// The address is a multiple of the element's size.
    Argument& aligned();

   private:
    friend class Check;
    Argument(Check* check, const char* name, const Tensor& tensor) : check_(check), name_(name), t_(tensor) {}
    [[noreturn]] void fail(const std::string& got, const std::string& expected) const;
    Check* check_;
    const char* name_;
    const Tensor& t_;
  };

  /// A tensor that must be given. All tensors of one call lie on one device, and one with elements has
  /// memory.
  Argument tensor(const char* name, const Tensor& t);

  /// Throws unless `ok`; for scalars and for rules that span arguments.
  void that(bool ok, const char* argument, const std::string& got, const std::string& expected) const {
    if (!ok) fail(argument, got, expected);
  }
  /// Two arguments whose memory may not overlap, unless they are the very same view when `same_is_fine`.
  void no_overlap(const char* a_name, const Tensor& a, const char* b_name, const Tensor& b,
                  bool same_is_fine);
  [[noreturn]] void fail(const char* argument, const std::string& got, const std::string& expected) const;
  const char* op() const { return op_; }
  /// Device of the tensors seen so far.
  Device device() const { return device_; }

 private:
  const char* op_;
  const char* device_from_ = nullptr;
  Device device_;
};

}  // namespace musaic
