// Token ids of the real vocabulary, compared with those of an independent tokenizer
// (make_tokenizer_golden.py).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "llm/gguf.h"
#include "llm/tests/model_file.h"
#include "llm/tokenizer.h"
#include "llm/utf8.h"

namespace musaic::llm {
namespace {

struct GoldenLine {
  std::string text, pre = "smollm";
  bool special = false, lossy = false;
  std::vector<int32_t> ids;
};

/// Reads one line of the golden file: a JSON object of strings, `true` and arrays of whole numbers.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  GoldenLine read() {
    GoldenLine line;
    expect('{');
    do {
      const std::string key = string();
      expect(':');
      if (key == "text") {
        line.text = string();
      } else if (key == "pre") {
        line.pre = string();
      } else if (key == "ids") {
        line.ids = numbers();
      } else if (key == "special" || key == "lossy") {
        for (const char c : std::string_view("true")) expect(c);
        (key == "special" ? line.special : line.lossy) = true;
      } else {
        throw std::runtime_error("unknown key " + key);
      }
    } while (take(','));
    expect('}');
    if (!rest_.empty()) throw std::runtime_error("text after the object");
    return line;
  }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!take(c)) throw std::runtime_error(std::string("expected ") + c);
  }

  char next() {
    if (rest_.empty()) throw std::runtime_error("the line ends early");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  std::string string() {
    std::string out;
    expect('"');
    for (char c = next(); c != '"'; c = next()) {
      if (c != '\\') {
        out += c;
        continue;
      }
      constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
      const char escape = next();
      if (escape == 'u') {
        std::string hex;
        for (int i = 0; i < 4; ++i) hex += next();
        utf8_append(out, static_cast<char32_t>(std::stoul(hex, nullptr, 16)));
      } else {
        out += kMeanings.at(kEscapes.find(escape));
      }
    }
    return out;
  }

  std::vector<int32_t> numbers() {
    std::vector<int32_t> out;
    expect('[');
    if (take(']')) return out;
    do {
      std::string digits;
      while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') digits += next();
      out.push_back(std::stoi(digits));
    } while (take(','));
    expect(']');
    return out;
  }

  std::string_view rest_;
};

std::vector<GoldenLine> golden_lines() {
  std::ifstream file(MUSAIC_TEST_DATA "/tokenizer_golden.jsonl");
  std::vector<GoldenLine> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(LineReader(line).read());
  return lines;
}

TEST(TokenizerGolden, IdsEqualThoseOfAnIndependentTokenizer) {
  const std::vector<GoldenLine> lines = golden_lines();
  ASSERT_GE(lines.size(), 500u);
  MUSAIC_NEED_MODEL(path);
  const GgufFile file = GgufFile::open(path);
  Vocabulary vocabulary = Vocabulary::from_gguf(file);
  ASSERT_EQ(vocabulary.pre, "smollm");
  std::map<std::string, Tokenizer> tokenizers;
  size_t different = 0;
  for (const GoldenLine& line : lines) {
    auto found = tokenizers.find(line.pre);
    if (found == tokenizers.end()) {
      vocabulary.pre = line.pre;
      found = tokenizers.emplace(line.pre, Tokenizer(vocabulary)).first;
    }
    const Tokenizer& tokenizer = found->second;
    const std::vector<int32_t> ids = tokenizer.encode(line.text, line.special);
    if (ids != line.ids && ++different <= 10) {
      ADD_FAILURE() << line.pre << (line.special ? ", special: " : ": ") << line.text << "\n  got      "
                    << testing::PrintToString(ids) << "\n  expected " << testing::PrintToString(line.ids);
    }
    if (!line.lossy) {
      EXPECT_EQ(tokenizer.decode(ids), line.text);
    }
    if (!line.special) {
      for (const int32_t id : ids) ASSERT_FALSE(tokenizer.is_control(id)) << line.text;
    }
  }
  EXPECT_EQ(different, 0u) << "of " << lines.size() << " lines";
  std::cout << lines.size() << " lines, " << tokenizers.size() << " pre-tokenizers\n";
}

TEST(TokenizerGolden, StreamingGivesTheSameTextAsDecoding) {
  MUSAIC_NEED_MODEL(path);
  const Tokenizer tokenizer = Tokenizer::from_gguf(GgufFile::open(path));
  for (const GoldenLine& line : golden_lines()) {
    if (line.pre != "smollm" || line.lossy) continue;
    Utf8Stream stream;
    std::string text;
    for (const int32_t id : line.ids) {
      const std::string characters = stream.push(tokenizer.token_bytes(id));
      ASSERT_TRUE(utf8_valid(characters));
      text += characters;
    }
    EXPECT_EQ(stream.flush(), "");
    EXPECT_EQ(text, line.text);
  }
}

TEST(TokenizerGolden, FindsTheModelsMarkers) {
  MUSAIC_NEED_MODEL(path);
  const Tokenizer tokenizer = Tokenizer::from_gguf(GgufFile::open(path));
  EXPECT_EQ(tokenizer.size(), 49152);
  EXPECT_EQ(tokenizer.find_special("<|im_start|>"), 1);
  EXPECT_EQ(tokenizer.find_special("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_FALSE(tokenizer.add_bos());
  EXPECT_TRUE(tokenizer.is_end(0) && tokenizer.is_end(2));
  EXPECT_FALSE(tokenizer.is_end(1));
}

TEST(TokenizerGolden, SpeedOnOrdinaryText) {
  MUSAIC_NEED_MODEL(path);
  const Tokenizer tokenizer = Tokenizer::from_gguf(GgufFile::open(path));
  const std::vector<GoldenLine> lines = golden_lines();
  std::string text;
  while (text.size() < (size_t{1} << 20)) {
    for (const GoldenLine& line : lines) text += line.text;
  }
  const auto begin = std::chrono::steady_clock::now();
  const size_t ids = tokenizer.encode(text).size();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double megabytes_per_s = static_cast<double>(text.size()) / 1e6 / took.count();
  std::cout << text.size() << " bytes, " << ids << " tokens, " << megabytes_per_s << " MB/s\n";
  // The bar is 1 MB/s; builds with checks are slower.
  EXPECT_GT(megabytes_per_s, 0.05);
}

}  // namespace
}  // namespace musaic::llm
