// Where the time of a forward pass goes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace musaic::llm {

/// Seconds and calls by kind of work; counts only while it is on.
class Profile {
 public:
  enum Kind : size_t {
    kEmbedding,
    kNorm,
    kProduct,
    kOutput,
    kRope,
    kStore,
    kAttention,
    kActivation,
    kSampling,
    kKinds
  };
  static constexpr std::array<const char*, kKinds> kNames = {
      "embedding", "norm", "product", "output", "rope", "store", "attention", "activation", "sampling"};
  struct Entry {
    double seconds = 0;
    int64_t calls = 0;
  };

  void turn_on(bool on) { on_ = on; }
  bool is_on() const { return on_; }
  void reset() { entries_ = {}; }
  const Entry& operator[](Kind kind) const { return entries_[kind]; }

  /// Runs `work`, which is of this kind.
  template <class Work>
  void measure(Kind kind, Work&& work) {
    if (!on_) return work();
    const auto start = std::chrono::steady_clock::now();
    work();
    entries_[kind].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++entries_[kind].calls;
  }

 private:
  bool on_ = false;
  std::array<Entry, kKinds> entries_{};
};

}  // namespace musaic::llm
