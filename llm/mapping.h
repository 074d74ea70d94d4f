// A file in memory, read only, and what happens when the file shrinks under the map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace musaic::llm {

/// A regular file, mapped read only from end to end. Movable; unmapped by the destructor.
///
/// The bytes are the file's pages, not a copy: another process that writes to the file changes them, and one
/// that shortens it makes reads past the new end raise SIGBUS. Two defences:
///  - `check_unchanged()` compares size and time stamp with those at opening and throws;
///  - `install_sigbus_guard()` ends the process with one clear line in place of a crash.
class MappedFile {
 public:
  /// Maps the file at `path`.
  /// Throws musaic::Error for a file that is missing, unreadable, not regular or empty.
  static MappedFile open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  const std::string& path() const noexcept { return path_; }

  /// Throws musaic::Error when the file has another size or modification time than at opening.
  void check_unchanged() const;

 private:
  void close() noexcept;

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  int slot_ = -1;
  int64_t mtime_s_ = 0, mtime_ns_ = 0;
};

/// Installs a handler for SIGBUS, once per process. A fault inside a MappedFile writes
/// "musaic: error: <path>: the file shrank or became unreadable while it was in use" to standard error and
/// ends the process with exit code 1; it uses async-signal-safe calls only. Any other SIGBUS goes to the
/// handler that was there before. For programs; a library must not install handlers behind its caller's back,
/// so nothing in llm/ calls this by itself. Throws musaic::Error when the system refuses.
///
/// Up to 64 maps can be open at a time under the guard; maps past that number work, but are not guarded.
void install_sigbus_guard();

}  // namespace musaic::llm
