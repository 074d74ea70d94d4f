// The operators on torch tensors, for C++ programs and extensions: musaic::on_torch::rmsnorm(out, input, weight, 1e-6).
//
// Each operator of musaic/ops.h is here under its name, with the arguments of that declaration but stream and workspace;
// all of them have to be given. Tensors are at::Tensor, or std::nullopt where the operator takes "no tensor". A call
// runs on the current stream of the tensors' device and takes scratch memory from torch's allocator. Errors are
// c10::ValueError (a wrong argument) and c10::Error.
//
// Link with the extension that `python -m musaic.build_torch` makes, and with libmusaic.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <type_traits>

#include "bindings/torch/adapter.h"
#include "musaic/ops.h"

namespace musaic::on_torch {

template <auto Function>
struct Call;

template <class... P, void (*Function)(P...)>
struct Call<Function> {
  const char* name;

  template <class... A>
  void operator()(const A&... arguments) const {
    constexpr std::size_t kTaken = (std::size_t{0} + ... + (is<P, Stream> || is<P, Workspace> ? 0 : 1));
    static_assert(sizeof...(A) == kTaken,
                  "give all arguments of the operator's declaration but stream and workspace");
    const OpInfo& op = find_operator(name);
    std::optional<c10::Device> device;
    Value values[kTaken == 0 ? 1 : kTaken];
    std::size_t i = 0;
    try {
      ((box(op, i, arguments, values[i], device), ++i), ...);
    } catch (const Error& e) {
      torch_adapter::raise(e);
    }
    torch_adapter::run(op, values, device.value_or(c10::Device(c10::kCPU)));
  }

 private:
  template <class Q, class T>
  static constexpr bool is = std::is_same_v<std::remove_cv_t<std::remove_reference_t<Q>>, T>;

  template <class A>
  static void box(const OpInfo& op, std::size_t i, const A& a, Value& value,
                  std::optional<c10::Device>& device) {
    if constexpr (std::is_same_v<A, std::nullopt_t>) {
      (void)op, (void)i, (void)value, (void)device;
    } else if constexpr (std::is_same_v<A, std::optional<at::Tensor>>) {
      if (a) box(op, i, *a, value, device);
    } else if constexpr (std::is_same_v<A, at::Tensor>) {
      if (!a.defined()) return;
      if (!device) device = a.device();
      value = torch_adapter::view_of(a, true, op.name, ("argument " + std::to_string(i)).c_str());
    } else {
      static_assert(std::is_arithmetic_v<A>, "arguments are tensors, std::nullopt and numbers");
      switch (op.parameters[i]) {
        case Value::Kind::kInt:
          value = static_cast<std::int64_t>(a);
          break;
        case Value::Kind::kFloat:
          value = static_cast<double>(a);
          break;
        default:
          value = static_cast<bool>(a);
      }
    }
  }
};

#define MUSAIC_OP(name, Args, folder, schema) inline constexpr Call<&::musaic::name> name{#name};
#include "ops/list.inc"
#undef MUSAIC_OP

}  // namespace musaic::on_torch
