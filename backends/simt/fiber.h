// Fibers: one stack and one saved context per thread of a block. x86-64 has a switch of its own (a few ns);
// other processors, or MUSAIC_SIMT_UCONTEXT, use ucontext (a few hundred).
#pragma once

#include <cstddef>
#include <vector>

#if !defined(__x86_64__) && !defined(MUSAIC_SIMT_UCONTEXT)
#define MUSAIC_SIMT_UCONTEXT
#endif
#if defined(MUSAIC_SIMT_UCONTEXT)
#include <ucontext.h>
#endif

namespace musaic::simt {

struct Stack {
  char* low;   // above a guard page
  char* high;  // a little different for each stack: equal offsets would share cache sets
};

/// Where a fiber, or a worker's own stack, left off.
struct Context {
#if defined(MUSAIC_SIMT_UCONTEXT)
  ucontext_t state;
#else
  void* stack_pointer = nullptr;
#endif
};

/// Prepares `context` so that the first switch to it calls `entry` on `stack`. `entry` never returns.
void make_context(Context& context, const Stack& stack, void (*entry)());
/// Saves into `from`, continues at `to`.
void switch_context(Context& from, Context& to);

/// Stacks of one worker; they are reused last in, first out, so that few of them stay warm.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();
  Stack* take();
  void give(Stack* stack) { free_.push_back(stack); }

 private:
  void grow();
  std::vector<Stack*> free_, all_;
  std::vector<void*> slabs_;
};

}  // namespace musaic::simt
