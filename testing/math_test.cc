// The elementary functions of device/math.h have the same bits on every backend and instruction set.
#include <algorithm>
#include <cstdlib>

#include "backends/backend.h"
#include "testing/math_args.h"
#include "testing/testing.h"

namespace musaic {

#define MUSAIC_MATH_BACKEND(ns)                \
  namespace ns {                               \
  void evaluate_math(const MathArgs&, Stream); \
  }
#define MUSAIC_CPU_PATH(ns, path, test) MUSAIC_MATH_BACKEND(ns)
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH
MUSAIC_MATH_BACKEND(simt_ops)
MUSAIC_MATH_BACKEND(cuda)
MUSAIC_MATH_BACKEND(musa)
#undef MUSAIC_MATH_BACKEND

namespace testing {
namespace {

using Evaluate = void (*)(const MathArgs&, Stream);

/// What evaluates on the current target.
Evaluate evaluator(const std::string& target) {
#define MUSAIC_CPU_PATH(ns, path, test) \
  if (target == std::string("cpu:") + path) return &ns::evaluate_math;
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH
#if defined(MUSAIC_HAS_SIMT)
  if (device().type == DeviceType::kSimt) return &simt_ops::evaluate_math;
#endif
#if defined(MUSAIC_HAS_CUDA)
  if (device().type == DeviceType::kCuda) return &cuda::evaluate_math;
#endif
#if defined(MUSAIC_HAS_MUSA)
  if (device().type == DeviceType::kMusa) return &musa::evaluate_math;
#endif
  return nullptr;
}

/// The bits of the results.
std::vector<std::uint32_t> evaluate(const std::string& target, MathArgs args) {
  const Evaluate f = evaluator(target);
  if (f == nullptr) throw Error("no form of the elementary functions for " + target);
  const OwnedTensor out(kFloat32, {args.count}, device());
  args.out = out.data_as<float>();
  f(args, {});
  std::vector<std::uint32_t> values(static_cast<std::size_t>(args.count));
  synchronize(device());
  copy_to_host(device(), values.data(), args.out, out.size_in_bytes());
  return values;
}

class ElementaryFunctions : public OnTarget {};
MUSAIC_EVERY_TARGET(ElementaryFunctions);

// MUSAIC_EVERY_FLOAT=1 takes all 2^32 arguments where a target is fast enough for it.
TEST_P(ElementaryFunctions, HaveTheBitsOfTheFirstCpuPath) {
  const std::string first = targets().front();
  if (GetParam() == first) GTEST_SKIP() << "the others are compared with it";
  const bool all = std::getenv("MUSAIC_EVERY_FLOAT") != nullptr && !is_slow();
  const std::int64_t part = scaled<std::int64_t>(1 << 20, 1 << 16), parts = all ? 4096 : 1;
  const auto step = static_cast<std::uint32_t>((std::int64_t{1} << 32) / (part * parts));
  for (int function = 0; function < kMathFunctions; ++function)
    for (std::int64_t p = 0; p < parts; ++p) {
      const auto begin = static_cast<std::uint32_t>(uniform_int(0, step - 1) + p * part);
      const MathArgs args{function, begin, step, part, nullptr};
      use_target(GetParam());
      const std::vector<std::uint32_t> here = evaluate(GetParam(), args);
      use_target(first);
      const std::vector<std::uint32_t> there = evaluate(first, args);
      if (here == there) continue;
      const auto differ = std::mismatch(here.begin(), here.end(), there.begin());
      const auto i = static_cast<std::uint32_t>(differ.first - here.begin());
      ADD_FAILURE() << kMathNames[function] << " of the bits " << begin + i * step << " has the bits "
                    << *differ.first << ", on " << first << " " << *differ.second;
    }
}

}  // namespace
}  // namespace testing
}  // namespace musaic
