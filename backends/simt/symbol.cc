#include "backends/simt/symbol.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

// gcc's libbacktrace, where the program was linked with it.
extern "C" {
struct backtrace_state;
using backtrace_error = void (*)(void*, const char*, int);
using backtrace_line = int (*)(void*, std::uintptr_t, const char*, int, const char*);
__attribute__((weak)) backtrace_state* backtrace_create_state(const char*, int, backtrace_error, void*);
__attribute__((weak)) int backtrace_pcinfo(backtrace_state*, std::uintptr_t, backtrace_line, backtrace_error,
                                           void*);
}

namespace musaic::simt {
namespace {

std::string readable(const char* symbol) {
  if (symbol == nullptr) return {};
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return result;
}

void ignore_error(void*, const char*, int) {}

int add_line(void* data, std::uintptr_t, const char* file, int line, const char* function) {
  if (file != nullptr)
    static_cast<std::vector<SourceLine>*>(data)->push_back({file, line, readable(function)});
  return 0;
}

std::vector<SourceLine> by_libbacktrace(std::uintptr_t address) {
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  std::vector<SourceLine> lines;
  backtrace_pcinfo(state, address, add_line, ignore_error, &lines);
  return lines;
}

std::vector<SourceLine> by_addr2line(std::uintptr_t address) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) return {};
  char command[4096];
  std::snprintf(command, sizeof command, "addr2line -fCie '%s' 0x%lx 2>/dev/null", info.dli_fname,
                static_cast<unsigned long>(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase)));
  std::vector<SourceLine> lines;
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return lines;
  char function[1024], place[1024];
  while (std::fgets(function, sizeof function, pipe) != nullptr &&
         std::fgets(place, sizeof place, pipe) != nullptr) {
    const std::string f(function), p(place);
    const std::size_t colon = p.rfind(':');
    if (colon == std::string::npos || p[0] == '?') continue;
    lines.push_back({p.substr(0, colon), static_cast<int>(std::strtol(p.c_str() + colon + 1, nullptr, 10)),
                     f.substr(0, f.find('\n'))});
  }
  pclose(pipe);
  return lines;
}

}  // namespace

std::vector<SourceLine> source_lines(const void* return_address) {
  if (return_address == nullptr) return {};
  static std::mutex mutex;
  static std::map<const void*, std::vector<SourceLine>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known.find(return_address);
  if (found != known.end()) return found->second;
  // The call itself ends before the address that it returns to.
  const auto call = reinterpret_cast<std::uintptr_t>(return_address) - 1;
  auto lines = backtrace_create_state != nullptr && backtrace_pcinfo != nullptr ? by_libbacktrace(call)
                                                                                : by_addr2line(call);
  return known.emplace(return_address, std::move(lines)).first->second;
}

}  // namespace musaic::simt
