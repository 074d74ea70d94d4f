// UTF-8: steps over a byte string, and assembly of whole characters from a stream of bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace musaic::llm {

/// What stands at the beginning of a byte string.
enum class Utf8Kind {
  kValid,       ///< one complete character
  kInvalid,     ///< bytes that no continuation can turn into a character
  kIncomplete,  ///< the string ends inside a character that is right so far
};

/// One step over a byte string: the kind of its first unit, and the bytes of that unit.
struct Utf8Step {
  Utf8Kind kind;
  size_t bytes;  ///< at least 1; for kInvalid the "maximal subpart" of the Unicode Standard, section 3.9
  char32_t character;  ///< for kValid, else 0
};

/// Looks at the first unit of `text`, which must not be empty. Overlong forms, surrogates and values past
/// U+10FFFF are invalid (Unicode Standard, table 3-7).
Utf8Step utf8_step(std::string_view text) noexcept;

/// True when `text` is well-formed UTF-8 from end to end. The empty string is.
bool utf8_valid(std::string_view text) noexcept;

/// Appends the UTF-8 form of `character` to `out`; surrogates and values past U+10FFFF become U+FFFD.
void utf8_append(std::string& out, char32_t character);

/// Turns a stream of bytes, cut anywhere, into well-formed UTF-8. A character is given out when its last byte
/// is there, never before; bytes that cannot become a character are given out as U+FFFD.
class Utf8Stream {
 public:
  /// Takes the next bytes and returns all characters that are complete now.
  std::string push(std::string_view bytes);

  /// Ends the stream: returns U+FFFD for a character that was begun and not completed, else nothing. The
  /// stream is empty afterwards and can be used again.
  std::string flush();

 private:
  std::string pending_;  // at most 3 bytes
};

}  // namespace musaic::llm
