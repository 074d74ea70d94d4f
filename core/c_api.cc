#include "musaic/c_api.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "musaic/registry.h"
#include "musaic/version.h"

namespace {

template <class F>
std::int32_t guarded(F f, char* error, std::size_t error_bytes) noexcept {
  const char* text = "unknown failure";
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    text = e.what();
    if (error != nullptr && error_bytes > 0) {
      const std::size_t n = std::min(error_bytes - 1, std::strlen(text));
      std::memcpy(error, text, n);
      error[n] = '\0';
    }
    return 1;
  } catch (...) {
    if (error != nullptr && error_bytes > 0) error[0] = '\0';
    return 1;
  }
}

musaic::Value unbox(const MusaicValue& v) {
  switch (v.kind) {
    case MUSAIC_TENSOR:
      if (v.as.tensor == nullptr) return musaic::Tensor();
      return musaic::Tensor(*static_cast<const musaic::TensorLayout*>(v.as.tensor));
    case MUSAIC_INT:
      return std::int64_t{v.as.integer};
    case MUSAIC_FLOAT:
      return v.as.number;
    case MUSAIC_BOOL:
      return v.as.integer != 0;
    default:
      throw musaic::Error("musaic_call", "kind", std::to_string(v.kind), "0 to 3");
  }
}

}  // namespace

const char* musaic_version(void) { return MUSAIC_VERSION; }

int32_t musaic_num_operators(void) { return static_cast<int32_t>(musaic::operators().size()); }

const char* musaic_operator_name(int32_t index) {
  return index >= 0 && index < musaic_num_operators()
             ? musaic::operators()[static_cast<std::size_t>(index)].name
             : nullptr;
}

const char* musaic_operator_schema(int32_t index) {
  return index >= 0 && index < musaic_num_operators()
             ? musaic::operators()[static_cast<std::size_t>(index)].schema
             : nullptr;
}

int32_t musaic_call(const char* name, const MusaicValue* args, int32_t num_args, void* stream,
                    void* workspace, int64_t workspace_bytes, char* error, size_t error_bytes) {
  return guarded(
      [&] {
        if (name == nullptr) throw musaic::Error("musaic_call", "name", "null", "an operator's name");
        const musaic::OpInfo& op = musaic::find_operator(name);
        const std::size_t expected = op.parameters.size();
        if (num_args < 0 || static_cast<std::size_t>(num_args) != expected ||
            (args == nullptr && expected > 0))
          throw musaic::Error(name, "arguments", std::to_string(num_args), std::to_string(expected));
        std::vector<musaic::Value> values(expected);
        std::transform(args, args + expected, values.begin(), unbox);
        op.call(values.data(), musaic::Stream{stream}, musaic::Workspace{workspace, workspace_bytes});
      },
      error, error_bytes);
}

int32_t musaic_check(int32_t device_type, int32_t device_index, void* stream, char* error,
                     size_t error_bytes) {
  return guarded(
      [&] {
        musaic::check({static_cast<musaic::DeviceType>(device_type), device_index}, musaic::Stream{stream});
      },
      error, error_bytes);
}
