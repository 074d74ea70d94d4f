#include "llm/stop.h"

#include "testing/testing.h"

namespace musaic::llm {
namespace {

using testing::uniform_int;

struct Seen {
  std::string text;
  bool stopped;
};

/// The text that comes out when the stream is cut at random.
Seen pass(const std::vector<std::string>& stops, const std::string& text) {
  StopMatcher matcher(stops);
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto n = static_cast<size_t>(uniform_int(0, 4));
    out += matcher.push(std::string_view(text).substr(i, n));
    EXPECT_TRUE(text.starts_with(out));
    i += n;
  }
  out += matcher.flush();
  return {out, matcher.stopped()};
}

TEST(StopMatcher, CutsAtTheStringHoweverTheStreamIsCut) {
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(pass({"END"}, "the ENEND of it").text, "the EN");
    EXPECT_EQ(pass({"aab"}, "aaaab").text, "aa");
    EXPECT_EQ(pass({"abc", "b"}, "xabc").text, "xa");  // "b" ends first
    EXPECT_EQ(pass({"c", "abc"}, "xabc").text, "x");   // both end together: the longest
    EXPECT_EQ(pass({"\n\n"}, "a\nb\n").text, "a\nb\n");
    EXPECT_FALSE(pass({"\n\n"}, "a\nb\n").stopped);
    EXPECT_EQ(pass({"", "\xE6\xAD\xAA"}, "\xE6\xAD\xAA").text, "");
    EXPECT_EQ(pass({}, "all").text, "all");
  }
}

TEST(StopMatcher, IsASearchForTheFirstEnd) {
  for (int i = 0; i < 2000; ++i) {
    const auto word = [](int64_t most) {
      std::string s;
      for (int64_t n = uniform_int(1, most); n > 0; --n) s += static_cast<char>('a' + uniform_int(0, 1));
      return s;
    };
    const std::vector<std::string> stops = {word(4), word(5)};
    const std::string text = word(30);
    size_t end = std::string::npos, begin = text.size();
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      const size_t this_end = at + stop.size();
      if (end == std::string::npos || this_end < end || (this_end == end && at < begin))
        end = this_end, begin = at;
    }
    const Seen seen = pass(stops, text);
    EXPECT_EQ(seen.text, text.substr(0, begin)) << stops[0] << ' ' << stops[1] << ' ' << text;
    EXPECT_EQ(seen.stopped, end != std::string::npos);
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanItMust) {
  StopMatcher matcher({"###"});
  EXPECT_EQ(matcher.push("a#"), "a");
  EXPECT_EQ(matcher.push("#b"), "##b");
  EXPECT_EQ(matcher.push("##"), "");
  EXPECT_EQ(matcher.flush(), "##");
}

}  // namespace
}  // namespace musaic::llm
