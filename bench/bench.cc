#include "bench/bench.h"

#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace musaic::bench {
namespace {

constexpr std::size_t kProbeBytes = std::size_t{256} << 20;

/// Best of several rounds of `part(thread, threads)` on all threads, in seconds.
template <class F>
double best_seconds(F part) {
  const int threads = num_threads();
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (int t = 1; t < threads; ++t) workers.emplace_back([&, t] { part(t, threads); });
    part(0, threads);
    for (std::thread& w : workers) w.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

double read_gb_per_s() {
  static const double rate = [] {
    std::vector<std::uint64_t> buffer(kProbeBytes / 8, 1);
    std::vector<std::uint64_t> sums(64, 0);
    const double s = best_seconds([&](int t, int n) {
      const std::size_t begin = buffer.size() * static_cast<std::size_t>(t) / static_cast<std::size_t>(n);
      const std::size_t end = buffer.size() * static_cast<std::size_t>(t + 1) / static_cast<std::size_t>(n);
      std::uint64_t a[8] = {};
      for (std::size_t i = begin; i + 8 <= end; i += 8)
        for (std::size_t j = 0; j < 8; ++j) a[j] += buffer[i + j];
      sums[static_cast<std::size_t>(t)] += std::accumulate(a, a + 8, std::uint64_t{0});
    });
    benchmark::DoNotOptimize(sums.data());
    return static_cast<double>(kProbeBytes) / s * 1e-9;
  }();
  return rate;
}

double copy_gb_per_s() {
  static const double rate = [] {
    std::vector<char> from(kProbeBytes, 1), to(kProbeBytes, 2);
    const double s = best_seconds([&](int t, int n) {
      const std::size_t begin = from.size() * static_cast<std::size_t>(t) / static_cast<std::size_t>(n);
      const std::size_t end = from.size() * static_cast<std::size_t>(t + 1) / static_cast<std::size_t>(n);
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
    benchmark::DoNotOptimize(to.data());
    return 2.0 * static_cast<double>(kProbeBytes) / s * 1e-9;
  }();
  return rate;
}

void set_traffic(benchmark::State& state, std::int64_t bytes, std::int64_t operations) {
  using benchmark::Counter;
  const double b = static_cast<double>(bytes);
  state.counters["GB/s"] = Counter(b * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["of_copy"] = Counter(b * 1e-9 / copy_gb_per_s(), Counter::kIsIterationInvariantRate);
  if (operations > 0)
    state.counters["Gop/s"] =
        Counter(static_cast<double>(operations) * 1e-9, Counter::kIsIterationInvariantRate);
}

void fill_random(const Tensor& t, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  const std::int64_t n = t.numel();
  if (t.dtype() == kFloat32) {
    for (std::int64_t i = 0; i < n; ++i) t.data_as<float>()[i] = normal(rng);
  } else if (t.dtype() == kFloat16 || t.dtype() == kBFloat16) {
    // A sign, an exponent near that of 1 and random mantissa bits: well-behaved in both formats.
    const int mantissa = t.dtype() == kFloat16 ? 10 : 7, bias = t.dtype() == kFloat16 ? 15 : 127;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t r = rng();
      const auto exponent = static_cast<std::uint64_t>(bias) - r % 3;
      t.data_as<std::uint16_t>()[i] = static_cast<std::uint16_t>(
          (r >> 63 << 15) | (exponent << mantissa) | ((r >> 8) & ((std::uint64_t{1} << mantissa) - 1)));
    }
  } else {
    for (std::int64_t i = 0; i < n * size_bytes(t.dtype()); ++i)
      t.data_as<unsigned char>()[i] = static_cast<unsigned char>(rng());
  }
}

}  // namespace musaic::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("cpu_path", musaic::cpu_path());
  benchmark::AddCustomContext("threads", std::to_string(musaic::num_threads()));
  benchmark::AddCustomContext("copy_gb_per_s", std::to_string(musaic::bench::copy_gb_per_s()));
  benchmark::AddCustomContext("read_gb_per_s", std::to_string(musaic::bench::read_gb_per_s()));
  benchmark::RunSpecifiedBenchmarks();
}
