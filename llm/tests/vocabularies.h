// Small vocabularies for tests and fuzz targets.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer.h"
#include "llm/utf8.h"

namespace musaic::llm {

/// A Vocabulary that owns its texts. Tokens get ids in the order in which they are added.
class VocabularyBuilder {
 public:
  /// "gpt2" with a token for each byte: ids 0 to 255 are the bytes.
  static VocabularyBuilder byte_level(std::string pre) {
    VocabularyBuilder builder;
    builder.vocabulary.model = "gpt2";
    builder.vocabulary.pre = std::move(pre);
    for (unsigned b = 0; b < 256; ++b) builder.token(byte_level_text({static_cast<char>(b)}));
    return builder;
  }

  /// "llama" with unknown, begin and end tokens (ids 0 to 2) and byte tokens (ids 3 to 258).
  static VocabularyBuilder scored() {
    constexpr char kHex[] = "0123456789ABCDEF";
    VocabularyBuilder builder;
    builder.vocabulary.model = "llama";
    builder.token("<unk>", TokenType::kUnknown)
        .token("<s>", TokenType::kControl)
        .token("</s>", TokenType::kControl);
    for (unsigned b = 0; b < 256; ++b) {
      builder.token({'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'}, TokenType::kByte);
    }
    return builder;
  }

  VocabularyBuilder& token(const std::string& text, TokenType type = TokenType::kNormal, float score = 0) {
    vocabulary.tokens.push_back(keep(text));
    vocabulary.types.push_back(static_cast<int32_t>(type));
    if (vocabulary.model == "llama") vocabulary.scores.push_back(score);
    return *this;
  }

  /// Adds a merge and, behind the other tokens, its result; all given as bytes.
  VocabularyBuilder& merge(const std::string& left, const std::string& right) {
    token(byte_level_text(left + right));
    vocabulary.merges.push_back(keep(byte_level_text(left) + ' ' + byte_level_text(right)));
    return *this;
  }

  /// How a byte-level vocabulary writes these bytes.
  static std::string byte_level_text(const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
      const auto b = static_cast<unsigned char>(c);
      unsigned character = b;
      if (b <= 0x20) character = 0x100u + b;
      if (b >= 0x7F && b <= 0xA0) character = 0x121u + b - 0x7F;
      if (b == 0xAD) character = 0x143;
      utf8_append(out, character);
    }
    return out;
  }

  std::string_view keep(const std::string& text) { return texts_.emplace_back(text); }

  Vocabulary vocabulary;

 private:
  std::deque<std::string> texts_;
};

}  // namespace musaic::llm
