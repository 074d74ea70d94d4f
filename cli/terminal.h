// What a person at a terminal sees and presses.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace musaic::cli {

/// A line on standard error that is drawn over itself; nothing where standard error is no terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Draws "label [####    ] done/total" at most twenty times a second.
  void show(const std::string& label, int64_t done, int64_t total);
  /// Takes the line away.
  void clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

/// While it lives, the first Ctrl-C (or SIGTERM) only sets a flag; the second ends the process as usual.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool pressed();
};

/// True when text on standard output is read by a person as it comes.
bool stdout_is_terminal();

}  // namespace musaic::cli
