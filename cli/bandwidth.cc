#include "cli/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace musaic::cli {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t sum(std::span<const std::byte> memory) {
  uint64_t sums[16] = {};
  for (size_t i = 0; i + sizeof sums <= memory.size(); i += sizeof sums) {
    uint64_t words[16];
    std::memcpy(words, memory.data() + i, sizeof words);
    for (int k = 0; k < 16; ++k) sums[k] += words[k];
  }
  uint64_t total = 0;
  for (const uint64_t s : sums) total += s;
  return total;
}

}  // namespace

double read_bandwidth(std::span<const std::byte> memory, int threads) {
  const auto n = static_cast<size_t>(std::max(threads, 1));
  std::atomic<uint64_t> sink{0};
  double best_s = 1e9;
  const auto end = Clock::now() + std::chrono::milliseconds(200);
  do {
    const auto start = Clock::now();
    std::vector<std::thread> helpers;
    for (size_t i = 0; i < n; ++i) {
      const size_t begin = memory.size() / n * i;
      const auto part = memory.subspan(begin, i + 1 == n ? memory.size() - begin : memory.size() / n);
      helpers.emplace_back([part, &sink] { sink += sum(part); });
    }
    for (std::thread& t : helpers) t.join();
    best_s = std::min(best_s, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return static_cast<double>(memory.size()) / best_s;
}

double copy_bandwidth(int threads) {
  constexpr size_t kBytes = size_t{256} << 20;
  const auto n = static_cast<size_t>(std::max(threads, 1));
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  double best_s = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    std::vector<std::thread> helpers;
    for (size_t i = 0; i < n; ++i)
      helpers.emplace_back([&, i] {
        const size_t begin = kBytes * i / n, end = kBytes * (i + 1) / n;
        std::memcpy(to.data() + begin, from.data() + begin, end - begin);
      });
    for (std::thread& t : helpers) t.join();
    best_s = std::min(best_s, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2.0 * static_cast<double>(kBytes) / best_s;
}

}  // namespace musaic::cli
