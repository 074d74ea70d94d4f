#include "llm/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace musaic::llm {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

/// What comes out of each push, and of the flush at the end.
std::vector<std::string> stream(const std::vector<std::string>& parts) {
  Utf8Stream utf8;
  std::vector<std::string> out;
  for (const std::string& part : parts) out.push_back(utf8.push(part));
  out.push_back(utf8.flush());
  return out;
}

using Parts = std::vector<std::string>;

TEST(Utf8, C63StreamsWholeCharacters) {
  EXPECT_EQ(stream({"\xE6\xAD", "\xAA"}), (Parts{"", "\xE6\xAD\xAA", ""}));
  EXPECT_EQ(stream({"a\xF0\x9F", "\x98", "\x80z"}), (Parts{"a", "", "\xF0\x9F\x98\x80z", ""}));
  EXPECT_EQ(stream({"\xF0", "\x9F", "\x98\x80"}), (Parts{"", "", "\xF0\x9F\x98\x80", ""}));
  EXPECT_EQ(stream({"plain", "", " text"}), (Parts{"plain", "", " text", ""}));
  EXPECT_EQ(stream({std::string("a\0b", 3)}), (Parts{std::string("a\0b", 3), ""}));
}

TEST(Utf8, C63FlushesTheRestOnce) {
  EXPECT_EQ(stream({"x\xE6\xAD"}), (Parts{"x", kReplacement}));
  EXPECT_EQ(stream({"\xF0\x9F"}), (Parts{"", kReplacement}));
  EXPECT_EQ(stream({"\xFF"}), (Parts{kReplacement, ""}));
  Utf8Stream utf8;
  utf8.push("\xF0\x9F\x98");
  EXPECT_EQ(utf8.flush(), kReplacement);
  EXPECT_EQ(utf8.flush(), "");
  EXPECT_EQ(utf8.push("\x80"), kReplacement) << "nothing is left of the stream that was ended";
}

TEST(Utf8, InvalidBytesAreReplacedWhenTheyCannotBeCompleted) {
  EXPECT_EQ(stream({"\xE6\xAD", "a"}), (Parts{"", kReplacement + "a", ""}));
  EXPECT_EQ(stream({"\xC0\xAF"}), (Parts{kReplacement + kReplacement, ""})) << "overlong";
  EXPECT_EQ(stream({"\xED\xA0\x80"}), (Parts{kReplacement + kReplacement + kReplacement, ""})) << "surrogate";
  EXPECT_EQ(stream({"\xF4\x90"}), (Parts{kReplacement + kReplacement, ""})) << "past U+10FFFF";
  EXPECT_EQ(stream({"\xF0\x9F\x98", "\xF0\x9F\x98\x80"}), (Parts{"", kReplacement + "\xF0\x9F\x98\x80", ""}));
}

TEST(Utf8, EveryCharacterGoesThroughAnyCut) {
  for (char32_t c = 1; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    utf8_append(text, c);
    ASSERT_TRUE(utf8_valid(text));
    const Utf8Step step = utf8_step(text);
    ASSERT_EQ(step.kind, Utf8Kind::kValid);
    ASSERT_EQ(step.bytes, text.size());
    ASSERT_EQ(step.character, c);
    Utf8Stream utf8;
    for (size_t i = 0; i < text.size(); ++i) {
      if (i > 0) {
        ASSERT_EQ(utf8_step(std::string_view(text).substr(0, i)).kind, Utf8Kind::kIncomplete);
        ASSERT_FALSE(utf8_valid(std::string_view(text).substr(0, i)));
      }
      ASSERT_EQ(utf8.push(text.substr(i, 1)), i + 1 == text.size() ? text : "");
    }
  }
  std::string bad;
  utf8_append(bad, 0xD800);
  utf8_append(bad, 0x110000);
  EXPECT_EQ(bad, kReplacement + kReplacement);
  EXPECT_TRUE(utf8_valid(""));
}

}  // namespace
}  // namespace musaic::llm
