#include "backends/cpu/pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "musaic/stream.h"

namespace musaic {
namespace {

// A worker spins this often before it sleeps: some 50 us, longer than the gap between two operators of a
// decode step.
constexpr int kSpins = 20000;

void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Pool {
 public:
  ~Pool() { stop(); }

  void resize(int threads) {
    const std::lock_guard<std::mutex> lock(owner_);
    stop();
    threads_ = std::min(threads, 0xffff);
  }

  int threads() const { return threads_; }

  void run(std::int64_t n, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t),
           void* context) {
    if (n <= 0) return;
    const std::int64_t most = n / std::max<std::int64_t>(grain, 1);
    const int parts = static_cast<int>(std::clamp<std::int64_t>(most, 1, threads_));
    if (parts == 1 || inside_) return body(context, 0, n);
    const std::unique_lock<std::mutex> lock(owner_, std::try_to_lock);
    if (!lock.owns_lock()) return body(context, 0, n);
    if (workers_.empty()) start();
    body_ = body;
    context_ = context;
    n_ = n;
    finished_.store(0, std::memory_order_relaxed);
    const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    open_.store(Open{epoch, parts, 1}.packed(), std::memory_order_release);
    epoch_.store(epoch, std::memory_order_release);
    epoch_.notify_all();
    inside_ = true;
    run_part(0, parts);
    // Parts that no worker has begun, since the system gave it no processor, are done here.
    const int taken = run_open_parts(epoch);
    inside_ = false;
    for (int spins = 0; finished_.load(std::memory_order_acquire) != parts - 1 - taken; ++spins) {
      if (spins < kSpins)
        spin_pause();
      else
        std::this_thread::yield();
    }
  }

 private:
  /// The parts of a call that nobody has taken: next, next + 1, ... parts - 1. The epoch is the call's, so
  /// that a worker that comes late takes nothing of the next one by mistake.
  struct Open {
    std::uint32_t epoch;
    int parts, next;
    std::uint64_t packed() const {
      return std::uint64_t{epoch} << 32 | static_cast<std::uint64_t>(parts) << 16 |
             static_cast<std::uint64_t>(next);
    }
    static Open unpacked(std::uint64_t v) {
      return {static_cast<std::uint32_t>(v >> 32), static_cast<int>(v >> 16 & 0xffff),
              static_cast<int>(v & 0xffff)};
    }
  };

  void run_part(int part, int parts) { body_(context_, n_ * part / parts, n_ * (part + 1) / parts); }

  /// Takes open parts of this epoch until there are none; how many it ran. body_, context_ and n_ stay as
  /// they are while a part that was taken is not finished.
  int run_open_parts(std::uint32_t epoch) {
    int count = 0;
    std::uint64_t seen = open_.load(std::memory_order_acquire);
    for (;;) {
      const Open o = Open::unpacked(seen);
      if (o.epoch != epoch || o.next >= o.parts) return count;
      if (!open_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      run_part(o.next, o.parts);
      ++count;
      if (is_worker_) finished_.fetch_add(1, std::memory_order_release);
      seen = open_.load(std::memory_order_acquire);
    }
  }

  void start() {
    quit_ = false;
    for (int i = 1; i < threads_; ++i)
      workers_.emplace_back([this, seen = epoch_.load()]() mutable {
        inside_ = is_worker_ = true;
        for (;;) {
          int spins = 0;
          std::uint32_t now;
          while ((now = epoch_.load(std::memory_order_acquire)) == seen) {
            if (++spins < kSpins)
              spin_pause();
            else
              epoch_.wait(seen, std::memory_order_acquire);
          }
          seen = now;
          if (quit_) return;
          run_open_parts(seen);
        }
      });
  }

  void stop() {
    if (workers_.empty()) return;
    quit_ = true;
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& w : workers_) w.join();
    workers_.clear();
  }

  static thread_local bool inside_, is_worker_;

  std::mutex owner_;
  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint64_t> open_{0};
  std::atomic<int> finished_{0};  // parts that workers have run
  std::atomic<bool> quit_{false};
  void (*body_)(void*, std::int64_t, std::int64_t) = nullptr;
  void* context_ = nullptr;
  std::int64_t n_ = 0;
  int threads_ = 1;
};

thread_local bool Pool::inside_ = false;
thread_local bool Pool::is_worker_ = false;

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Pool& pool() {
  static Pool p;
  static const bool sized = (p.resize(usable_processors()), true);
  (void)sized;
  return p;
}

}  // namespace

void set_num_threads(int n) { pool().resize(n > 0 ? n : usable_processors()); }
int num_threads() { return pool().threads(); }

void cpu::parallel_for(std::int64_t n, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t),
                       void* context) {
  pool().run(n, grain, body, context);
}

}  // namespace musaic
