// The one error type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace musaic {

/// Thrown for every failure that the library reports; nothing else is thrown on purpose.
///
/// `what()` reads "<where>: <what>: <got>, expected <expected>", for example
/// "rmsnorm: weight: shape [4096], expected [hidden_size=5120] (from input, dim 1)".
class Error : public std::runtime_error {
 public:
  /// A plain message, for failures that have no argument (out of memory, an unreadable file).
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  /// \param where     operator, file or command that was called
  /// \param what      argument or field at fault
  /// \param got       what came, in words ("shape [3, 4]", "dtype int32")
  /// \param expected  what would have been right, in words
  Error(std::string where, std::string what, std::string got, std::string expected)
      : std::runtime_error(where + ": " + what + ": " + got + ", expected " + expected),
        where_(std::move(where)),
        what_(std::move(what)),
        got_(std::move(got)),
        expected_(std::move(expected)) {}

  const std::string& where() const noexcept { return where_; }
  const std::string& argument() const noexcept { return what_; }
  const std::string& got() const noexcept { return got_; }
  const std::string& expected() const noexcept { return expected_; }

 private:
  std::string where_, what_, got_, expected_;
};

}  // namespace musaic
