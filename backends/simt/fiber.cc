#include "backends/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace musaic::simt {
namespace {

constexpr std::size_t kPage = 4096;
// An odd number of pages: with a power of two, the tops of all stacks would fall into the same cache sets.
constexpr std::size_t kStackBytes = 17 * kPage;
constexpr std::size_t kStacksPerSlab = 128;

}  // namespace

#if defined(MUSAIC_SIMT_UCONTEXT)

void make_context(Context& context, const Stack& stack, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack.low;
  context.state.uc_stack.ss_size = static_cast<std::size_t>(stack.high - stack.low);
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}

void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#else

// The System V ABI asks a callee to keep rbx, rbp and r12 to r15; kernels do not change the modes of the
// floating-point units, so those are not saved.
extern "C" void musaic_simt_switch(void** from, void* to);
asm(R"(
.text
.globl musaic_simt_switch
.hidden musaic_simt_switch
.type musaic_simt_switch,@function
musaic_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size musaic_simt_switch, .-musaic_simt_switch
)");

void make_context(Context& context, const Stack& stack, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack.high) & ~std::uintptr_t{15});
  *--top = nullptr;  // the return address of `entry`, which keeps its frame aligned
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  context.stack_pointer = top;
}

void switch_context(Context& from, Context& to) { musaic_simt_switch(&from.stack_pointer, to.stack_pointer); }

#endif

StackPool::~StackPool() {
  for (Stack* s : all_) delete s;
  for (void* slab : slabs_) munmap(slab, kStackBytes * kStacksPerSlab);
}

Stack* StackPool::take() {
  if (free_.empty()) grow();
  Stack* s = free_.back();
  free_.pop_back();
  return s;
}

void StackPool::grow() {
  void* slab = mmap(nullptr, kStackBytes * kStacksPerSlab, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) throw std::bad_alloc();
  slabs_.push_back(slab);
  for (std::size_t i = kStacksPerSlab; i-- > 0;) {
    char* base = static_cast<char*>(slab) + i * kStackBytes;
    mprotect(base, kPage, PROT_NONE);
    const std::size_t colour = (i * 832) % kPage / 64 * 64;
    auto* s = new Stack{base + kPage, base + kStackBytes - colour};
    all_.push_back(s);
    free_.push_back(s);
  }
}

}  // namespace musaic::simt
