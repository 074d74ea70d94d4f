// Flags between blocks and devices: every fence of a protocol is needed, and the report says which is
// missing.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class OrderTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(OrderTest);

struct Protocol {
  bool writer_barrier = true, writer_fence = true, reader_fence = true, reader_barrier = true;
  bool is_atomic = false;
};

__global__ void hand_over(float* data, unsigned* flag, float* out, int role, Protocol p) {
  const bool writer = role == 0 || (role == 2 && blockIdx.x == 0);
  if (writer) {
    data[threadIdx.x] = 7.0f;
    if (p.writer_barrier) __syncthreads();
    if (threadIdx.x == 0) {
      if (p.writer_fence) __threadfence_system();
      if (p.is_atomic) {
        atomicExch(flag, 1u);
      } else {
        *static_cast<volatile unsigned*>(flag) = 1;
      }
    }
  } else {
    if (threadIdx.x == 0) {
      if (p.is_atomic) {
        while (atomicAdd(flag, 0u) == 0) {
        }
      } else {
        while (*static_cast<volatile unsigned*>(flag) == 0) {
        }
      }
      if (p.reader_fence) __threadfence_system();
    }
    if (p.reader_barrier) __syncthreads();
    out[threadIdx.x] = data[threadIdx.x];  // PLANT(handed)
  }
}

/// Two blocks of one launch, or one block on each of two devices.
void run(const Protocol& p, bool devices, Array<float>& out) {
  Array<float> data(64, 0.0f);
  Array<unsigned> flag(1, 0u);
  synchronize();
  if (devices) {
    enable_peer_access(1, 0);
    const Stream a = create_stream(0), b = create_stream(1);
    MUSAIC_LAUNCH(hand_over, 1, 64, 0, b, data, flag, out, 1, p);
    MUSAIC_LAUNCH(hand_over, 1, 64, 0, a, data, flag, out, 0, p);
    destroy_stream(a);
    destroy_stream(b);
  } else {
    MUSAIC_LAUNCH(hand_over, 2, 64, 0, Stream{}, data, flag, out, 2, p);
  }
  synchronize();
}

TEST_P(OrderTest, EveryFenceIsNeeded) {
  Array<float> out(64);
  for (const bool devices : {false, true})
    for (const bool is_atomic : {false, true}) {
      Protocol whole;
      whole.is_atomic = is_atomic;
      run(whole, devices, out);
      expect_silence();
      EXPECT_EQ(out.get(), std::vector<float>(64, 7.0f));
      Protocol p = whole;
      p.writer_fence = false;
      run(p, devices, out);
      Report r = expect_finding(Finding::kMissingFence, "hand_over", line_of(__FILE__, "handed"));
      EXPECT_NE(r.message.find("its writer has no fence"), std::string::npos) << r.text();
      p = whole;
      p.reader_fence = false;
      run(p, devices, out);
      r = expect_finding(Finding::kMissingFence, "hand_over", line_of(__FILE__, "handed"));
      EXPECT_NE(r.message.find("follows the flag's load"), std::string::npos) << r.text();
      p = whole;
      p.writer_barrier = false;
      run(p, devices, out);
      expect_finding(devices ? Finding::kStreamOrder : Finding::kGlobalRace, "hand_over", 0);
      p = whole;
      p.reader_barrier = false;
      run(p, devices, out);
      expect_finding(devices ? Finding::kStreamOrder : Finding::kGlobalRace, "hand_over", 0);
    }
}

template <bool wide>
__global__ void device_fence(float* data, unsigned* flag, float* out, int role) {
  if (threadIdx.x != 0) return;
  if (role == 0) {
    data[0] = 7.0f;
    if (wide) __threadfence_system();
    if (!wide) __threadfence();
    atomicExch(flag, 1u);
  } else {
    while (load_acquire(flag) == 0) spin_pause();
    out[0] = data[0];  // PLANT(scope)
  }
}
TEST_P(OrderTest, DeviceFenceDoesNotReachOtherDevices) {
  enable_peer_access(1, 0);
  for (const bool wide : {false, true}) {
    Array<float> data(1, 0.0f), out(1);
    Array<unsigned> flag(1, 0u);
    const Stream b = create_stream(1);
    synchronize();
    MUSAIC_LAUNCH((wide ? device_fence<true> : device_fence<false>), 1, 32, 0, b, data, flag, out, 1);
    MUSAIC_LAUNCH((wide ? device_fence<true> : device_fence<false>), 1, 32, 0, Stream{}, data, flag, out, 0);
    synchronize();
    if (wide) {
      expect_silence();
    } else {
      expect_finding(Finding::kMissingFence, "device_fence", line_of(__FILE__, "scope"));
    }
    destroy_stream(b);
  }
}

/// The last block to finish adds the others' partial sums.
template <bool fixed>
__global__ void last_block_sums(const int* in, int* partial, unsigned* counter, int* out) {
  MUSAIC_SHARED(int, is_last);
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += in[blockIdx.x * blockDim.x + i];
    partial[blockIdx.x] = sum;
    if (fixed) __threadfence();
    is_last = atomicAdd(counter, 1u) == gridDim.x - 1;
    if (fixed) __threadfence();
  }
  __syncthreads();
  if (is_last != 0 && threadIdx.x == 0) {
    int sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];  // PLANT(last)
    *out = sum;
  }
}
TEST_P(OrderTest, LastBlock) {
  Array<int> in(256, 1), partial(8), out(1);
  Array<unsigned> counter(1, 0u);
  MUSAIC_LAUNCH(last_block_sums<true>, 8, 32, 0, Stream{}, in, partial, counter, out);
  EXPECT_EQ(out.get()[0], 256);
  expect_silence();
  counter.set({0u});
  MUSAIC_LAUNCH(last_block_sums<false>, 8, 32, 0, Stream{}, in, partial, counter, out);
  expect_finding(Finding::kMissingFence, "last_block_sums<false>", line_of(__FILE__, "last"));
}

__global__ void grid_barrier(unsigned* counter, unsigned blocks) {
  if (threadIdx.x == 0) {
    atomicAdd(counter, 1u);
    while (load_acquire(counter) < blocks) spin_pause();  // PLANT(spin)
  }
  __syncthreads();
}
TEST_P(OrderTest, GridLargerThanResidency) {
  Options o = options();
  o.resident_blocks = 4;
  set_options(o);
  Array<unsigned> counter(1, 0u);
  MUSAIC_LAUNCH(grid_barrier, 4, 32, 0, Stream{}, counter, 4u);
  synchronize();
  expect_silence();
  counter.set({0u});
  MUSAIC_LAUNCH(grid_barrier, 8, 32, 0, Stream{}, counter, 8u);
  expect_finding(Finding::kLivelock, "grid_barrier", line_of(__FILE__, "spin"));
}

/// Stores arrive late and out of order: without its fences the protocol delivers old bytes under some seed.
TEST_P(OrderTest, StoreBuffersShowWhatAMissingFenceDoes) {
  Options o = options();
  o.store_buffers = true;
  for (const int removed : {0, 1, 2})
    for (const bool devices : {false, true}) {
      Protocol p;
      if (removed == 1) p.writer_fence = false;
      if (removed == 2) p.reader_fence = false;
      int wrong = 0;
      for (std::uint64_t seed = 1; seed <= 15; ++seed) {
        o.seed = seed;
        set_options(o);
        Array<float> out(64);
        run(p, devices, out);
        wrong += out.get() != std::vector<float>(64, 7.0f);
        if (removed != 0) take_reports();
      }
      if (removed == 0) {
        EXPECT_EQ(wrong, 0);
        expect_silence();
      } else {
        EXPECT_GT(wrong, 0) << "removed " << removed << ", devices " << devices;
      }
    }
}

}  // namespace
}  // namespace musaic::simt::testing
