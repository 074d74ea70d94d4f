// A program that calls the operators on torch tensors from C++.
#include <ATen/ATen.h>

#include <iostream>

#include "bindings/torch/musaic_torch.h"

int main() {
  const at::Tensor x = at::randn({4, 24}), w = at::randn({24}), out = at::empty_like(x);
  musaic::on_torch::rmsnorm(out, x, w, 1e-6);
  const at::Tensor expected = x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-6) * w;
  if (!at::allclose(out, expected, 1e-5, 1e-5)) return 1;
  musaic::on_torch::rmsnorm(out, x, std::nullopt, 1e-6);
  if (!at::allclose(out * w, expected, 1e-5, 1e-5)) return 2;
  try {
    musaic::on_torch::rmsnorm(out, x, at::ones({3}), 1e-6);
  } catch (const c10::ValueError& e) {
    std::cout << e.what_without_backtrace() << '\n';
    return 0;
  }
  return 3;
}
