#include "cli/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace musaic::cli {
namespace {

volatile sig_atomic_t interrupted = 0;

void on_interrupt(int) { interrupted = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::show(const std::string& label, int64_t done, int64_t total) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  constexpr int64_t kWidth = 30;
  const int64_t filled = std::clamp<int64_t>(total > 0 ? done * kWidth / total : 0, 0, kWidth);
  const std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), ' ');
  std::fprintf(stderr, "\r%s [%s] %lld/%lld\033[K", label.c_str(), bar.c_str(), static_cast<long long>(done),
               static_cast<long long>(total));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

Interrupt::Interrupt() {
  interrupted = 0;
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
}

Interrupt::~Interrupt() {
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

bool Interrupt::pressed() { return interrupted != 0; }

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }

}  // namespace musaic::cli
