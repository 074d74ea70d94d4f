#include "llm/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "llm/gguf.h"
#include "llm/gguf_writer.h"
#include "llm/tests/vocabularies.h"
#include "llm/utf8.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

/// The tokens of a text, as bytes.
Strings pieces(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  Strings out;
  for (const int32_t id : tokenizer.encode(text, parse_special)) out.emplace_back(tokenizer.token_bytes(id));
  return out;
}

std::string error_of(const Vocabulary& vocabulary) {
  try {
    const Tokenizer tokenizer(vocabulary);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_error(const Vocabulary& vocabulary, const std::string& part) {
  const std::string error = error_of(vocabulary);
  EXPECT_NE(error.find(part), std::string::npos) << "wanted " << part << " in \"" << error << '"';
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

uint64_t seed() {
  const char* given = std::getenv("MUSAIC_SEED");
  const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "MUSAIC_SEED=" << value << '\n';
  return value;
}

VocabularyBuilder small_byte_level(const std::string& pre) {
  VocabularyBuilder builder = VocabularyBuilder::byte_level(pre);
  builder.merge("h", "e").merge("l", "l").merge("he", "ll").merge("hell", "o").merge(" ", "w");
  builder.merge("\xE6", "\xAD").merge("1", "2").merge("12", "3").merge("\r", "\n");
  builder.token("<|im_start|>", TokenType::kControl).token("<|im_end|>", TokenType::kControl);
  builder.token("<think>", TokenType::kUserDefined).token("<|im", TokenType::kControl);
  return builder;
}

VocabularyBuilder small_scored() {
  VocabularyBuilder builder = VocabularyBuilder::scored();
  const std::vector<std::pair<std::string, float>> tokens = {{"\xE2\x96\x81", -1},
                                                             {"h", -2},
                                                             {"e", -2},
                                                             {"l", -2},
                                                             {"o", -2},
                                                             {"he", -3},
                                                             {"ll", -2.5f},
                                                             {"hell", -4},
                                                             {"hello", -5},
                                                             {"\xE2\x96\x81hello", -6},
                                                             {"\xE2\x96\x81h", -9},
                                                             {"<", -9},
                                                             {"s", -9},
                                                             {">", -9},
                                                             {"<s", -9},
                                                             {"\xE6\xAD\xAA", -9},
                                                             {"\xE2\x96\x81\xE2\x96\x81", -1.5f}};
  for (const auto& [text, score] : tokens) builder.token(text, TokenType::kNormal, score);
  builder.token("[INST]", TokenType::kUserDefined);
  return builder;
}

TEST(Tokenizer, MergesByRank) {
  const Tokenizer tokenizer(small_byte_level("gpt-2").vocabulary);
  EXPECT_EQ(pieces(tokenizer, "hello world"), (Strings{"hello", " w", "o", "r", "l", "d"}));
  EXPECT_EQ(pieces(tokenizer, "hell"), (Strings{"hell"}));
  EXPECT_EQ(pieces(tokenizer, "lll"), (Strings{"ll", "l"})) << "the leftmost of equal pairs";
  EXPECT_EQ(pieces(tokenizer, ""), Strings{});
}

/// Ids by the definition of byte-pair encoding: join all pairs of the best rank, from the left, until none is
/// left.
Strings slow_merge(const Vocabulary& vocabulary, const std::map<std::string, std::string>& to_bytes,
                   const std::string& text) {
  Strings symbols;
  for (const char c : text) symbols.push_back({c});
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view merge : vocabulary.merges) {
      const std::string left = to_bytes.at(std::string(merge.substr(0, merge.find(' '))));
      const std::string right = to_bytes.at(std::string(merge.substr(merge.find(' ') + 1)));
      for (size_t i = 0; i + 1 < symbols.size() && !found; ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] += right;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        found = true;
      }
      if (found) break;
    }
  }
  return symbols;
}

TEST(Tokenizer, EqualsTheDefinitionOnRandomVocabularies) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 40; ++round) {
    VocabularyBuilder builder = VocabularyBuilder::byte_level("gpt-2");
    std::map<std::string, std::string> to_bytes;
    Strings known{"a", "b", "c", "d"};
    for (const std::string& s : known) to_bytes[s] = s;
    for (int m = 0; m < 12; ++m) {
      const std::string left = known[random() % known.size()], right = known[random() % known.size()];
      if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
      builder.merge(left, right);
      known.push_back(left + right);
      to_bytes[left + right] = left + right;
    }
    const Tokenizer tokenizer(builder.vocabulary);
    for (int k = 0; k < 25; ++k) {
      std::string text;
      for (size_t n = random() % 40; n > 0; --n) text += "abcd"[random() % 4];
      ASSERT_EQ(pieces(tokenizer, text), slow_merge(builder.vocabulary, to_bytes, text)) << text;
    }
  }
}

TEST(Tokenizer, CutsTextAsTheNamedRuleSays) {
  // Merges of everything with everything show where the pieces end.
  const auto cut = [](const std::string& pre, const std::string& text) {
    VocabularyBuilder builder = VocabularyBuilder::byte_level(pre);
    const std::string all = "a1 .\n'sS";
    std::vector<std::string> known;
    for (const char c : all) known.push_back({c});
    for (size_t from = 0, length = 1; length < 5; ++length) {
      const size_t end = known.size();
      for (size_t i = from; i < end; ++i) {
        for (const char c : all) {
          builder.merge(known[i], {c});
          known.push_back(known[i] + c);
        }
      }
      from = end;
    }
    builder.vocabulary.ignore_merges = false;
    return pieces(Tokenizer(builder.vocabulary), text);
  };
  EXPECT_EQ(cut("gpt-2", "a111 1a..a"), (Strings{"a", "111", " 1", "a", "..", "a"}));
  EXPECT_EQ(cut("smollm", "a111 1a..a"), (Strings{"a", "1", "1", "1", " ", "1", "a", "..", "a"}));
  EXPECT_EQ(cut("llama-bpe", "a1111 1a..a"), (Strings{"a", "111", "1", " ", "1", "a", "..", "a"}));
  EXPECT_EQ(cut("qwen2", "a11 1.a"), (Strings{"a", "1", "1", " ", "1", ".a"}));
  EXPECT_EQ(cut("tekken", "aSa11."), (Strings{"a", "Sa", "1", "1", "."}));
  EXPECT_EQ(cut("gpt-2", "a   a\n\na"), (Strings{"a", "  ", " a", "\n", "\n", "a"}));
  EXPECT_EQ(cut("llama-bpe", "a   a\n\na"), (Strings{"a", "  ", " a", "\n\n", "a"}));
  EXPECT_EQ(cut("gpt-2", "a's a'S"), (Strings{"a", "'s", " a", "'", "S"}));
  EXPECT_EQ(cut("llama-bpe", "a's a'S"), (Strings{"a", "'s", " a", "'S"}));
  EXPECT_EQ(cut("default", "a1111."), (Strings{"a", "111", "1", "."}));
}

TEST(Tokenizer, C63AnyBytesRoundTrip) {
  std::mt19937_64 random(seed());
  std::vector<std::string> texts = {
      "\xE6\xAD", "\xE6\xAD\xAA", "\xF0\x9F",     "\xFF",         std::string("a\0b", 3), "",
      "\xC3",     "ok\xC3(",      "\xED\xA0\x80", "\xE2\x96\x81", "a\xE2\x96\x81 b",      " ",
      "  a ",     "<s>",          "<0x41>",       "<|im_end|>",   "[INST]hello",          "hello <s> hello"};
  for (int k = 0; k < 300; ++k) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n) {
      const uint64_t r = random();
      if (r % 4 == 0) {
        utf8_append(text, static_cast<char32_t>((r >> 8) % 0x3000));
      } else if (r % 4 == 1) {
        text += "hello wor123\r\n"[(r >> 8) % 14];
      } else {
        text += static_cast<char>(r >> 8);
      }
    }
    texts.push_back(text);
  }
  std::vector<Tokenizer> tokenizers;
  for (const std::string_view pre : Tokenizer::pre_tokenizers()) {
    tokenizers.emplace_back(small_byte_level(std::string(pre)).vocabulary);
  }
  tokenizers.emplace_back(small_scored().vocabulary);
  for (const Tokenizer& tokenizer : tokenizers) {
    for (const std::string& text : texts) {
      for (const bool special : {false, true}) {
        ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, special)), text) << quoted(text);
      }
      for (const int32_t id : tokenizer.encode(text)) ASSERT_FALSE(tokenizer.is_control(id)) << quoted(text);
    }
  }
}

TEST(Tokenizer, C64WholeWordLookupBeforeMerging) {
  const auto make = [](const std::string& pre) {
    VocabularyBuilder builder = VocabularyBuilder::byte_level(pre);
    builder.merge("x", "y").token("xyz");
    return builder;
  };
  VocabularyBuilder builder = make("llama-bpe");
  EXPECT_EQ(pieces(Tokenizer(builder.vocabulary), "xyz"), (Strings{"xyz"})) << "on for this rule";
  builder.vocabulary.ignore_merges = false;
  EXPECT_EQ(pieces(Tokenizer(builder.vocabulary), "xyz"), (Strings{"xy", "z"}));
  builder = make("gpt-2");
  EXPECT_EQ(pieces(Tokenizer(builder.vocabulary), "xyz"), (Strings{"xy", "z"})) << "off for this rule";
  builder.vocabulary.ignore_merges = true;
  EXPECT_EQ(pieces(Tokenizer(builder.vocabulary), "xyz"), (Strings{"xyz"}));
}

TEST(Tokenizer, C64UnknownNamesAreReported) {
  VocabularyBuilder builder = VocabularyBuilder::byte_level("gpt-99\n");
  expect_error(builder.vocabulary, "tokenizer.ggml.pre: \"gpt-99\\x0a\", expected one of default gpt-2");
  builder.vocabulary.pre = "";
  expect_error(builder.vocabulary, "tokenizer.ggml.pre: no pre-tokenizer name, expected one of");
  builder.vocabulary.model = "bert";
  expect_error(builder.vocabulary, "tokenizer.ggml.model: \"bert\", expected gpt2 or llama");
  builder.vocabulary.model = "";
  expect_error(builder.vocabulary, "tokenizer.ggml.model: no tokenizer model");
}

TEST(Tokenizer, SpecialTokensInUserTextStayText) {
  const Tokenizer tokenizer(small_byte_level("gpt-2").vocabulary);
  const int32_t start = tokenizer.find_special("<|im_start|>").value();
  const int32_t end = tokenizer.find_special("<|im_end|>").value();
  const int32_t think = tokenizer.find_special("<think>").value();
  const std::string text = "<|im_start|>hello<|im_end|><think><|im_e";
  const Ids plain = tokenizer.encode(text);
  EXPECT_EQ(std::count_if(plain.begin(), plain.end(), [](int32_t id) { return id >= 265; }), 0);
  EXPECT_EQ(tokenizer.decode(plain), text);

  const Strings expected{"<|im_start|>", "hello", "<|im_end|>", "<think>", "<|im", "_", "e"};
  EXPECT_EQ(pieces(tokenizer, text, true), expected) << "the longest special token at each place";
  const Ids special = tokenizer.encode(text, true);
  EXPECT_EQ(special[0], start);
  EXPECT_EQ(special[2], end);
  EXPECT_EQ(special[3], think);
  EXPECT_EQ(tokenizer.decode(special), text);
  EXPECT_EQ(tokenizer.decode(special, false), "hello<think>_e");
  EXPECT_EQ(tokenizer.find_special("hello"), std::nullopt);
  EXPECT_EQ(tokenizer.find_special("<|im_"), std::nullopt);
  EXPECT_EQ(tokenizer.find_special(""), std::nullopt);
  EXPECT_TRUE(tokenizer.is_end(end));
  EXPECT_FALSE(tokenizer.is_end(start));
}

TEST(Tokenizer, MergesNeverMakeControlTokens) {
  VocabularyBuilder builder = VocabularyBuilder::byte_level("gpt-2");
  builder.merge("<", "s").token("<s>", TokenType::kControl);
  builder.vocabulary.merges.push_back("<s >");
  expect_error(builder.vocabulary, "sides that make a token together");
  builder.vocabulary.merges.pop_back();
  builder.vocabulary.ignore_merges = true;
  EXPECT_EQ(pieces(Tokenizer(builder.vocabulary), "<s>"), (Strings{"<", "s", ">"}));

  const Tokenizer scored(small_scored().vocabulary);
  EXPECT_EQ(pieces(scored, "<s>"), (Strings{" ", "<s", ">"}));
}

TEST(Tokenizer, BeginAndEndTokens) {
  VocabularyBuilder builder = small_byte_level("gpt-2");
  builder.vocabulary.bos = 265;
  builder.vocabulary.eos = 266;
  Tokenizer tokenizer(builder.vocabulary);
  EXPECT_EQ(tokenizer.encode_prompt("l"), (Ids{'l'}));
  EXPECT_TRUE(tokenizer.is_end(266));
  builder.vocabulary.add_bos = builder.vocabulary.add_eos = true;
  tokenizer = Tokenizer(builder.vocabulary);
  EXPECT_EQ(tokenizer.encode_prompt("l"), (Ids{265, 'l', 266}));
  EXPECT_EQ(tokenizer.encode("l"), (Ids{'l'}));
  builder.vocabulary.pre = "llama-bpe";
  builder.vocabulary.add_bos = std::nullopt;
  EXPECT_TRUE(Tokenizer(builder.vocabulary).add_bos()) << "on for this rule";
  builder.vocabulary.bos = std::nullopt;
  EXPECT_FALSE(Tokenizer(builder.vocabulary).add_bos());
  builder.vocabulary.add_bos = true;
  expect_error(builder.vocabulary, "tokenizer.ggml.add_bos_token");
  builder.vocabulary.bos = builder.vocabulary.tokens.size();
  expect_error(builder.vocabulary, "tokenizer.ggml.bos_token_id: 269, expected a token id below 269");
  builder.vocabulary.bos = UINT64_MAX;
  expect_error(builder.vocabulary, "tokenizer.ggml.bos_token_id");
}

TEST(Tokenizer, IdsAreChecked) {
  const Tokenizer tokenizer(small_byte_level("gpt-2").vocabulary);
  for (const int32_t id : {-1, tokenizer.size(), INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(tokenizer.token_bytes(id), Error);
    EXPECT_THROW(tokenizer.decode(Ids{id}), Error);
    EXPECT_THROW(tokenizer.type(id), Error);
    EXPECT_THROW(tokenizer.is_end(id), Error);
  }
}

TEST(Tokenizer, ScoredMerging) {
  const Tokenizer tokenizer(small_scored().vocabulary);
  EXPECT_EQ(pieces(tokenizer, "hello"), (Strings{" hello"}));
  EXPECT_EQ(pieces(tokenizer, "hellohello"), (Strings{" hello", "hello"}));
  EXPECT_EQ(pieces(tokenizer, "ehe"), (Strings{" ", "e", "he"}));
  EXPECT_EQ(pieces(tokenizer, "\xE6\xAD\xAA!"), (Strings{" ", "\xE6\xAD\xAA", "!"}))
      << "byte token for the sign";
  EXPECT_EQ(tokenizer.encode("!").back(), 3 + '!');
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode_prompt("hello"), (Ids{1, tokenizer.encode("hello")[0]}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("[INST] hello", true)), "[INST] hello");

  VocabularyBuilder builder = small_scored();
  builder.vocabulary.add_space_prefix = false;
  EXPECT_EQ(pieces(Tokenizer(builder.vocabulary), "hello"), (Strings{"hello"}));

  // Without byte tokens the unknown token stands for what cannot be written.
  VocabularyBuilder no_bytes;
  no_bytes.vocabulary.model = "llama";
  no_bytes.token("<unk>", TokenType::kUnknown).token("a").token("\xE2\x96\x81");
  no_bytes.vocabulary.bos = no_bytes.vocabulary.eos = 0;
  EXPECT_EQ(Tokenizer(no_bytes.vocabulary).encode("a!\xE2\x96\x81"), (Ids{2, 1, 0, 0, 0, 0}));
}

TEST(Tokenizer, C61ArraysOfOtherTypesAndLengths) {
  const auto file_error = [](bool scored, auto scores, auto types) -> std::string {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", scored ? "llama" : "gpt2").add("tokenizer.ggml.pre", "gpt-2");
    writer.add("tokenizer.ggml.tokens",
               std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b", "c", "d", "e"});
    writer.add("tokenizer.ggml.scores", scores).add("tokenizer.ggml.token_type", types);
    writer.add("tokenizer.ggml.merges", std::vector<std::string>{});
    const std::vector<std::byte> bytes = writer.bytes();
    try {
      Tokenizer::from_gguf(GgufFile::parse(bytes, "vocab.gguf"));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::vector<float> scores(8, 0.0f);
  const std::vector<int32_t> types(8, 1);
  EXPECT_EQ(file_error(true, scores, types), "");
  EXPECT_EQ(file_error(false, scores, types), "");
  EXPECT_EQ(file_error(true, std::vector<uint8_t>(8, 0), types),
            "vocab.gguf: \"tokenizer.ggml.scores\": array of 8 u8, expected array of f32");
  for (const bool scored : {true, false}) {
    EXPECT_EQ(file_error(scored, scores, std::vector<uint8_t>(8, 1)),
              "vocab.gguf: \"tokenizer.ggml.token_type\": array of 8 u8, expected array of i32");
    for (const size_t n : {size_t{7}, size_t{9}}) {
      EXPECT_EQ(file_error(scored, scores, std::vector<int32_t>(n, 1)),
                "vocab.gguf: tokenizer.ggml.token_type: " + std::to_string(n) +
                    " elements, expected 8 as in tokenizer.ggml.tokens");
    }
  }
  for (const size_t n : {size_t{0}, size_t{7}, size_t{9}}) {
    EXPECT_EQ(file_error(true, std::vector<float>(n, 0.0f), types),
              "vocab.gguf: tokenizer.ggml.scores: " + std::to_string(n) +
                  " elements, expected 8 as in tokenizer.ggml.tokens");
  }
  std::vector<int32_t> bad = types;
  bad[3] = 7;
  EXPECT_NE(file_error(true, scores, bad).find("element 3 = 7"), std::string::npos);
}

TEST(Tokenizer, MalformedTablesAreNamed) {
  VocabularyBuilder none;
  none.vocabulary.model = "gpt2";
  none.vocabulary.pre = "gpt-2";
  expect_error(none.vocabulary, "tokenizer.ggml.tokens: 0 tokens");
  const std::vector<std::byte> empty = GgufWriter().bytes();
  EXPECT_THROW(Tokenizer::from_gguf(GgufFile::parse(empty)), Error);

  for (const std::string merge : {"ab", "a", "", " ", "a ", " a", "a b c", "a  b"}) {
    VocabularyBuilder builder = VocabularyBuilder::byte_level("gpt-2");
    builder.vocabulary.merges.push_back(merge);
    expect_error(builder.vocabulary,
                 "tokenizer.ggml.merges: element 0 = \"" + merge + "\", expected two tokens");
  }
  for (const std::string merge : {"aa b", "b aa", "a b", "\xE4\xBD\xA0 a", "\xFF a"}) {
    VocabularyBuilder builder = VocabularyBuilder::byte_level("gpt-2");
    builder.vocabulary.merges.push_back(merge);
    expect_error(builder.vocabulary, "tokenizer.ggml.merges: element 0");
  }

  VocabularyBuilder scored = small_scored();
  scored.vocabulary.scores[5] = std::numeric_limits<float>::quiet_NaN();
  expect_error(scored.vocabulary, "tokenizer.ggml.scores: element 5 = NaN");
  scored = small_scored();
  scored.token("<0xG1>", TokenType::kByte);
  expect_error(scored.vocabulary, "\"<0xG1>\", expected a name like <0x41>");
}

TEST(Tokenizer, TheFirstOfEqualTokensWins) {
  VocabularyBuilder builder = VocabularyBuilder::byte_level("gpt-2");
  builder.token("a").token("").merge("a", "b").merge("a", "b").token("ab");
  builder.token("<x>", TokenType::kControl).token("<x>", TokenType::kControl).token("", TokenType::kControl);
  const Tokenizer tokenizer(builder.vocabulary);
  EXPECT_EQ(tokenizer.encode("a ab"), (Ids{'a', ' ', 258}));
  EXPECT_EQ(tokenizer.encode("<x>", true), (Ids{261}));
}

TEST(Tokenizer, BytesWithoutATokenAreLeftOut) {
  VocabularyBuilder builder;
  builder.vocabulary.model = "gpt2";
  builder.vocabulary.pre = "gpt-2";
  builder.token("!").merge("!", "!");
  EXPECT_EQ(Tokenizer(builder.vocabulary).encode("!\x04!\xFF?"), (Ids{1}));
}

TEST(Tokenizer, SpacePrefixInByteLevelVocabularies) {
  VocabularyBuilder builder = small_byte_level("gpt-2");
  builder.vocabulary.add_space_prefix = true;
  const Tokenizer tokenizer(builder.vocabulary);
  EXPECT_EQ(pieces(tokenizer, "world"), (Strings{" w", "o", "r", "l", "d"}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("world")), "world");
}

TEST(Tokenizer, LongWordsTakeNoLongTime) {
  // A quadratic algorithm would need minutes for a word of a megabyte.
  const auto begin = std::chrono::steady_clock::now();
  const Tokenizer ranked(small_byte_level("smollm").vocabulary), scored(small_scored().vocabulary);
  const size_t n = 1 << 20;
  for (const std::string& unit :
       {std::string("l"), std::string("hello"), std::string(" "), std::string("\n"), std::string("7"),
        std::string("\xFF"), std::string("\xE6\xAD\xAA"), std::string("<"), std::string("'")}) {
    std::string text;
    while (text.size() < n) text += unit;
    for (const Tokenizer* tokenizer : {&ranked, &scored}) {
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true)), text) << quoted(unit);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 120.0);
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
  const Tokenizer tokenizer(small_byte_level("llama-bpe").vocabulary);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "hello wor" + std::to_string(i) + (i % 7 == 0 ? "\r\n" : " ");
  const Ids expected = tokenizer.encode(text);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) threads.emplace_back([&] { result = tokenizer.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace musaic::llm
