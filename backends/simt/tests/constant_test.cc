// A unit of its own, since constant memory is counted by units.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class ConstantTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(ConstantTest);

MUSAIC_CONSTANT(float[2049], table) = {5};

void reads_much_constant(float* out) { out[threadIdx.x] = table[threadIdx.x]; }

TEST_P(ConstantTest, MoreThanTheTargetHas) {
  Array<float> out(1, -1.0f);
  MUSAIC_LAUNCH(reads_much_constant, 1, 1, 0, Stream{}, out.data());
  if (current_target().constant_bytes >= 2049 * 4) {
    EXPECT_EQ(out.get(), std::vector<float>{5});
    return;
  }
  const Report r = expect_finding(Finding::kConstantLimit, "reads_much_constant", 0);
  EXPECT_NE(r.message.find("8196 bytes of constant memory"), std::string::npos) << r.text();
  EXPECT_NE(r.message.find("8192"), std::string::npos) << r.text();
}

}  // namespace
}  // namespace musaic::simt::testing
