// Two rows through rmsnorm, and what a wrong call says.
#include <musaic/musaic.h>

#include <cstdio>

int main() {
  float input[2][4] = {{3, 3, 3, 3}, {1, -7, 5, 5}}, weight[4] = {1, 1, 2, 4}, out[2][4];
  const musaic::Tensor x(input, musaic::kFloat32, {2, 4}), w(weight, musaic::kFloat32, {4}),
      y(out, musaic::kFloat32, {2, 4});
  musaic::rmsnorm(y, x, w, 0.0);
  for (const auto& row : out) std::printf("%g %g %g %g\n", row[0], row[1], row[2], row[3]);
  const musaic::Tensor short_weight(weight, musaic::kFloat32, {3});
  try {
    musaic::rmsnorm(y, x, short_weight);
  } catch (const musaic::Error& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("musaic %s\n", MUSAIC_VERSION);
}
