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
    threads_ = threads;
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
    parts_ = parts;
    pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    inside_ = true;
    run_part(0);
    inside_ = false;
    for (int spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < kSpins)
        spin_pause();
      else
        std::this_thread::yield();
    }
  }

 private:
  void run_part(int part) {
    if (part < parts_) body_(context_, n_ * part / parts_, n_ * (part + 1) / parts_);
  }

  void start() {
    quit_ = false;
    for (int i = 1; i < threads_; ++i)
      workers_.emplace_back([this, i, seen = epoch_.load()]() mutable {
        inside_ = true;
        for (;;) {
          int spins = 0;
          while (epoch_.load(std::memory_order_acquire) == seen) {
            if (++spins < kSpins)
              spin_pause();
            else
              epoch_.wait(seen, std::memory_order_acquire);
          }
          ++seen;
          if (quit_) return;
          run_part(i);
          pending_.fetch_sub(1, std::memory_order_release);
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

  static thread_local bool inside_;

  std::mutex owner_;
  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<int> pending_{0};
  bool quit_ = false;
  void (*body_)(void*, std::int64_t, std::int64_t) = nullptr;
  void* context_ = nullptr;
  std::int64_t n_ = 0;
  int parts_ = 0;
  int threads_ = 1;
};

thread_local bool Pool::inside_ = false;

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
