// Streams, events, graphs, and the mistakes that they allow.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class StreamTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(StreamTest);

__global__ void store(float* x, float v) { x[threadIdx.x] = v; }
__global__ void scale(const float* x, float* y, float by) {
  y[threadIdx.x] = x[threadIdx.x] * by;  // PLANT(scale)
}

struct TwoStreams {
  Stream a = create_stream(), b = create_stream();
  ~TwoStreams() {
    destroy_stream(a);
    destroy_stream(b);
  }
};

TEST_P(StreamTest, OneStreamIsInOrder) {
  Array<float> x(32), y(32);
  TwoStreams s;
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 2.0f);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.a, x, y, 3.0f);
  EXPECT_EQ(y.get(), std::vector<float>(32, 6.0f));
  expect_silence();
}

TEST_P(StreamTest, TwoStreamsNeedAnEvent) {
  Array<float> x(32), y(32);
  TwoStreams s;
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 2.0f);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.b, x, y, 3.0f);
  const Report r = expect_finding(Finding::kStreamOrder, "", 0);
  EXPECT_NE(r.address, nullptr);
  const Event stored = create_event();
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 2.0f);
  record(stored, s.a);
  wait(s.b, stored);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.b, x, y, 3.0f);
  EXPECT_EQ(y.get(), std::vector<float>(32, 6.0f));
  expect_silence();
}

TEST_P(StreamTest, EventRecordedTooEarly) {
  Array<float> x(32, 1.0f), y(32);
  TwoStreams s;
  const Event early = create_event();
  record(early, s.a);
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 2.0f);
  wait(s.b, early);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.b, x, y, 3.0f);
  expect_finding(Finding::kStreamOrder, "", 0);
}

TEST_P(StreamTest, HostWaitsForTheWrongStream) {
  Array<float> x(32, 1.0f);
  TwoStreams s;
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 2.0f);
  synchronize(s.b);
  std::vector<float> host(32);
  copy_from_device(host.data(), x, 128, s.b);
  expect_finding(Finding::kStreamOrder, "copy_from_device", 0);
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 2.0f);
  synchronize(s.a);
  copy_from_device(host.data(), x, 128, s.b);
  EXPECT_EQ(host, std::vector<float>(32, 2.0f));
  expect_silence();
}

TEST_P(StreamTest, GraphReplaysWithNewInputs) {
  Array<float> x(32, 1.0f), y(32), z(32);
  TwoStreams s;
  begin_capture(s.a);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.a, x, y, 3.0f);
  const Event forked = create_event(), joined = create_event();
  record(forked, s.a);
  wait(s.b, forked);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.b, y, z, 2.0f);
  record(joined, s.b);
  wait(s.a, joined);
  const Graph g = end_capture(s.a);
  EXPECT_EQ(node_count(g), 2);
  for (const float v : {1.0f, 5.0f}) {
    x.set(std::vector<float>(32, v));
    replay(g, s.a);
    EXPECT_EQ(z.get(), std::vector<float>(32, 6 * v));
  }
  expect_silence();
}

TEST_P(StreamTest, GraphWhoseBranchesRace) {
  Array<float> x(32, 1.0f), y(32);
  TwoStreams s;
  begin_capture(s.a);
  const Event forked = create_event(), joined = create_event();
  record(forked, s.a);
  wait(s.b, forked);
  MUSAIC_LAUNCH(store, 1, 32, 0, s.a, x, 3.0f);
  MUSAIC_LAUNCH(scale, 1, 32, 0, s.b, x, y, 2.0f);
  record(joined, s.b);
  wait(s.a, joined);
  replay(end_capture(s.a), s.a);
  expect_finding(Finding::kStreamOrder, "", 0);
}

TEST_P(StreamTest, CaptureThatIsNotJoined) {
  Array<float> x(32, 1.0f);
  TwoStreams s;
  begin_capture(s.a);
  const Event forked = create_event();
  record(forked, s.a);
  wait(s.b, forked);
  MUSAIC_LAUNCH(store, 1, 32, 0, s.b, x, 3.0f);
  EXPECT_THROW(synchronize(s.a), Error);
  EXPECT_THROW(end_capture(s.a), Error);
  EXPECT_FALSE(is_capturing(s.b));
}

}  // namespace
}  // namespace musaic::simt::testing
