#include "musaic/registry.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backends/backend.h"
#include "musaic/ops.h"

namespace musaic {
namespace {

template <class T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T>
inline constexpr bool kBoxed = !std::is_same_v<Plain<T>, Stream> && !std::is_same_v<Plain<T>, Workspace>;

template <class T>
constexpr Value::Kind kind_of() {
  using P = Plain<T>;
  static_assert(std::is_same_v<P, Tensor> || std::is_same_v<P, std::int64_t> || std::is_same_v<P, double> ||
                    std::is_same_v<P, bool>,
                "operators take tensors, int64_t, double and bool");
  if constexpr (std::is_same_v<P, Tensor>) return Value::Kind::kTensor;
  if constexpr (std::is_same_v<P, std::int64_t>) return Value::Kind::kInt;
  if constexpr (std::is_same_v<P, double>) return Value::Kind::kFloat;
  return Value::Kind::kBoolean;
}

void require(const Value& v, Value::Kind kind, std::size_t index) {
  static constexpr const char* kNames[] = {"a tensor", "an int", "a float", "a bool"};
  if (v.kind != kind)
    throw Error("call", "argument " + std::to_string(index), kNames[static_cast<int>(v.kind)],
                kNames[static_cast<int>(kind)]);
}

template <class T>
decltype(auto) unbox(const Value* args, std::size_t index, const Stream& stream, const Workspace& workspace) {
  using P = Plain<T>;
  if constexpr (std::is_same_v<P, Stream>) {
    return Stream(stream);
  } else if constexpr (std::is_same_v<P, Workspace>) {
    return Workspace(workspace);
  } else {
    const Value& v = args[index];
    require(v, kind_of<T>(), index);
    if constexpr (std::is_same_v<P, Tensor>) {
      return Tensor(v.tensor);
    } else if constexpr (std::is_same_v<P, double>) {
      return double{v.number};
    } else {
      return static_cast<P>(v.integer);
    }
  }
}

template <auto Function>
struct Boxed;

template <class... Parameters, void (*Function)(Parameters...)>
struct Boxed<Function> {
  static void call(const Value* args, Stream stream, Workspace workspace) {
    call_with(args, stream, workspace, std::index_sequence_for<Parameters...>());
  }
  template <std::size_t... I>
  static void call_with(const Value* args, Stream stream, Workspace workspace, std::index_sequence<I...>) {
    Function(unbox<Parameters>(args, I, stream, workspace)...);
  }
  static std::vector<Value::Kind> parameters() {
    std::vector<Value::Kind> kinds;
    (add<Parameters>(kinds), ...);
    return kinds;
  }
  template <class P>
  static void add(std::vector<Value::Kind>& kinds) {
    if constexpr (kBoxed<P>) kinds.push_back(kind_of<P>());
  }
  static constexpr bool kTakesWorkspace = (std::is_same_v<Plain<Parameters>, Workspace> || ...);
};

}  // namespace

const std::vector<OpInfo>& operators() {
  static const std::vector<OpInfo> list = {
#define MUSAIC_OP(name, Args, folder, schema) \
  {#name,                                     \
   #folder,                                   \
   schema,                                    \
   Boxed<&musaic::name>::parameters(),        \
   Boxed<&musaic::name>::kTakesWorkspace,     \
   &Boxed<&musaic::name>::call},
#include "ops/list.inc"
#undef MUSAIC_OP
  };
  return list;
}

const OpInfo& find_operator(const std::string& name) {
  const auto& list = operators();
  const auto found = std::find_if(list.begin(), list.end(), [&](const OpInfo& o) { return name == o.name; });
  if (found != list.end()) return *found;
  std::string known;
  for (const OpInfo& o : list) known += (known.empty() ? "" : ", ") + std::string(o.name);
  throw Error("musaic", "operator", name, "one of " + known);
}

std::int64_t workspace_wanted(const Error& error) {
  if (error.argument() != "workspace" || error.got().find(" bytes") == std::string::npos) return 0;
  const std::string& text = error.expected();
  const std::size_t digits = text.find_first_of("0123456789");
  if (digits == std::string::npos || text.find("multiple of") < digits) return 0;
  std::int64_t bytes = 0;
  for (std::size_t i = digits; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    if (bytes > (std::int64_t{1} << 58)) return 0;
    bytes = bytes * 10 + (text[i] - '0');
  }
  return bytes;
}

bool has_operator(const std::string& name, Device device) {
  const OpTable& table = *backend_for(device).ops;
#define MUSAIC_OP(op, Args, folder, schema) \
  if (name == #op) return table.op != nullptr;
#include "ops/list.inc"
#undef MUSAIC_OP
  return false;
}

}  // namespace musaic
