#include "llm/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "musaic/error.h"

namespace musaic::llm {

namespace {

/// What the signal handler may look at: fixed memory and lock-free atomics only.
struct GuardedMap {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};  // begin == end: not guarded (yet, or any more)
  char path[1024];
};

GuardedMap guarded_maps[64];
struct sigaction previous_action;
std::atomic<bool> told{false};
static_assert(std::atomic<bool>::is_always_lock_free);

static_assert(std::atomic<uintptr_t>::is_always_lock_free);

int take_slot(const std::string& path, const void* data, size_t size) {
  for (int i = 0; i < 64; ++i) {
    GuardedMap& map = guarded_maps[i];
    bool free = false;
    if (!map.taken.compare_exchange_strong(free, true)) continue;
    const size_t length = std::min(path.size(), sizeof map.path - 1);
    std::memcpy(map.path, path.data(), length);
    map.path[length] = '\0';
    const auto begin = reinterpret_cast<uintptr_t>(data);
    map.begin.store(begin);
    map.end.store(begin + size);
    return i;
  }
  return -1;
}

void give_slot_back(int slot) noexcept {
  if (slot < 0) return;
  guarded_maps[slot].end.store(0);
  guarded_maps[slot].begin.store(0);
  guarded_maps[slot].taken.store(false);
}

void write_all(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t n = ::write(STDERR_FILENO, text, left);
    if (n <= 0) return;
    text += n;
    left -= static_cast<size_t>(n);
  }
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  // A signal that a process sent (si_code <= 0) has no address.
  const uintptr_t address = info->si_code > 0 ? reinterpret_cast<uintptr_t>(info->si_addr) : 0;
  for (const GuardedMap& map : guarded_maps) {
    if (address == 0 || address < map.begin.load() || address >= map.end.load()) continue;
    // Threads may fault together: the first one tells, the others wait for the end.
    if (told.exchange(true))
      for (;;) ::pause();
    write_all("musaic: error: ");
    write_all(map.path);
    write_all(": the file shrank or became unreadable while it was in use\n");
    ::_exit(1);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // The instruction that faulted runs again after the return, now with the default action.
    ::signal(signal, SIG_DFL);
  }
}

[[noreturn]] void fail_errno(const std::string& path, const char* action) {
  throw Error(path + ": cannot " + action + ": " + std::strerror(errno));
}

int64_t mtime_ns(const struct stat& status) { return static_cast<int64_t>(status.st_mtim.tv_nsec); }

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: a FIFO must be refused, not waited for.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) fail_errno(path, "open");

  struct stat status{};
  if (::fstat(file.fd_, &status) != 0) fail_errno(path, "read its size");
  if (!S_ISREG(status.st_mode)) throw Error(path + ": not a regular file");
  if (status.st_size <= 0) throw Error(path, "size", "0 bytes", "a file with content");
  if (static_cast<uint64_t>(status.st_size) > std::numeric_limits<size_t>::max()) {
    throw Error(path, "size", std::to_string(status.st_size) + " bytes",
                "a size that fits the address space");
  }
  file.size_ = static_cast<size_t>(status.st_size);
  file.mtime_s_ = static_cast<int64_t>(status.st_mtim.tv_sec);
  file.mtime_ns_ = mtime_ns(status);

  void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED) fail_errno(path, "map into memory");
  file.data_ = static_cast<const std::byte*>(data);
  file.slot_ = take_slot(path, data, file.size_);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  fd_ = std::exchange(other.fd_, -1);
  slot_ = std::exchange(other.slot_, -1);
  mtime_s_ = other.mtime_s_;
  mtime_ns_ = other.mtime_ns_;
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() noexcept {
  give_slot_back(std::exchange(slot_, -1));
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(std::exchange(data_, nullptr)), size_);
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  size_ = 0;
}

void MappedFile::check_unchanged() const {
  if (fd_ < 0) return;
  struct stat status{};
  if (::fstat(fd_, &status) != 0) fail_errno(path_, "read its size");
  if (static_cast<uint64_t>(status.st_size) != size_) {
    throw Error(path_, "size", std::to_string(status.st_size) + " bytes",
                std::to_string(size_) + " bytes as when it was opened; the file changed while it was in use");
  }
  if (static_cast<int64_t>(status.st_mtim.tv_sec) != mtime_s_ || mtime_ns(status) != mtime_ns_) {
    throw Error(path_ + ": the file was written to while it was in use");
  }
}

void install_sigbus_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGBUS, &action, &previous_action) != 0) fail_errno("SIGBUS", "install a handler");
  });
}

}  // namespace musaic::llm
