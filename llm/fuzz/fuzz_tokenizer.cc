// Fuzz target: any bytes as text. The first byte picks a vocabulary and whether special tokens count; the
// rest must survive encoding and decoding, and a stream cut anywhere must give valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tests/vocabularies.h"
#include "llm/tokenizer.h"
#include "llm/utf8.h"

namespace {

using musaic::llm::Tokenizer;
using musaic::llm::TokenType;
using musaic::llm::VocabularyBuilder;

std::vector<Tokenizer> make_tokenizers() {
  std::vector<Tokenizer> tokenizers;
  for (const std::string_view pre : Tokenizer::pre_tokenizers()) {
    VocabularyBuilder builder = VocabularyBuilder::byte_level(std::string(pre));
    builder.merge("h", "e").merge("l", "l").merge("he", "ll").merge("hell", "o").merge(" ", "hello");
    builder.merge(" ", " ").merge("  ", "  ").merge("\xE6", "\xAD").merge("\xE6\xAD", "\xAA").merge("1", "2");
    builder.merge("\n", "\n")
        .merge("'", "s")
        .merge("<", "|")
        .merge("|", ">")
        .merge("a", "a")
        .merge("aa", "a");
    builder.token("<|im_start|>", TokenType::kControl).token("<|im_end|>", TokenType::kControl);
    builder.token("<|", TokenType::kControl).token("<tool>", TokenType::kUserDefined);
    tokenizers.emplace_back(builder.vocabulary);
  }
  VocabularyBuilder scored = VocabularyBuilder::scored();
  for (const char* text :
       {"\xE2\x96\x81", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\xE2\x96\x81hello", "a", "aa",
        "aaa", "<", "s", ">", "<s", "\xE6\xAD\xAA", "\xE2\x96\x81\xE2\x96\x81"}) {
    scored.token(text, TokenType::kNormal, -static_cast<float>(scored.vocabulary.tokens.size() % 7));
  }
  scored.token("[INST]", TokenType::kUserDefined);
  tokenizers.emplace_back(scored.vocabulary);
  return tokenizers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Tokenizer> tokenizers = make_tokenizers();
  if (size == 0) return 0;
  const bool special = (data[0] & 0x80) != 0;
  const Tokenizer& tokenizer = tokenizers[(data[0] & 0x7Fu) % tokenizers.size()];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);

  const std::vector<int32_t> ids = tokenizer.encode(text, special);
  if (tokenizer.decode(ids) != text) std::abort();
  musaic::llm::Utf8Stream stream;
  std::string streamed;
  for (const int32_t id : ids) {
    if (!special && tokenizer.is_control(id)) std::abort();
    const std::string characters = stream.push(tokenizer.token_bytes(id));
    if (!musaic::llm::utf8_valid(characters)) std::abort();
    streamed += characters;
  }
  streamed += stream.flush();
  musaic::llm::Utf8Stream whole;
  std::string at_once = whole.push(text);
  at_once += whole.flush();
  // Vocabularies with a space prefix stream one space more.
  const bool same = streamed == at_once || streamed == ' ' + at_once;
  if (!special && !same) std::abort();
  return 0;
}
