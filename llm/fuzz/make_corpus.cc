// Writes the seeds of the fuzz targets: make_corpus DIRECTORY makes DIRECTORY/gguf and DIRECTORY/tokenizer.
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "llm/gguf.h"
#include "llm/gguf_writer.h"
#include "llm/tests/vocabularies.h"

namespace {

using musaic::llm::GgmlType;
using musaic::llm::GgufWriter;
using musaic::llm::Vocabulary;
using musaic::llm::VocabularyBuilder;

GgufWriter with_vocabulary(const Vocabulary& vocabulary) {
  const std::vector<std::string> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  const std::vector<std::string> merges(vocabulary.merges.begin(), vocabulary.merges.end());
  GgufWriter writer;
  writer.add("general.architecture", "llama").add("tokenizer.ggml.model", vocabulary.model);
  writer.add("tokenizer.ggml.tokens", tokens).add("tokenizer.ggml.token_type", vocabulary.types);
  if (vocabulary.model == "llama") {
    writer.add("tokenizer.ggml.scores", vocabulary.scores);
  } else {
    writer.add("tokenizer.ggml.pre", vocabulary.pre).add("tokenizer.ggml.merges", merges);
  }
  writer.add("tokenizer.ggml.bos_token_id", uint32_t{1}).add("tokenizer.ggml.eos_token_id", uint32_t{2});
  writer.add("tokenizer.ggml.add_bos_token", true).add("tokenizer.ggml.add_space_prefix", false);
  writer.add("tokenizer.chat_template", "<|im_start|>system\nYou help.<|im_end|>");
  return writer;
}

std::vector<GgufWriter> gguf_seeds() {
  GgufWriter values(2);
  values.add("u8", uint8_t{1}).add("i8", int8_t{-1}).add("u16", uint16_t{2}).add("i16", int16_t{-2});
  values.add("u32", uint32_t{3}).add("i32", -3).add("u64", uint64_t{4}).add("i64", int64_t{-4});
  values.add("f32", 1.5f).add("f64", 2.5).add("bool", true).add("text", "abc");
  values.add("list", std::vector<std::string>{"a", "bc"}).add("numbers", std::vector<int32_t>{1, 2, 3});
  GgufWriter tensors;
  tensors.set_alignment(64);
  tensors.add_tensor("a", GgmlType::kF32, {4, 2}, std::vector<float>(8, 1.0f));
  tensors.add_tensor("b", GgmlType::kQ4_1, {32, 1, 2}, std::vector<uint8_t>(40, 7));
  tensors.add_tensor("c", GgmlType::kQ6_K, {256, 1, 1, 1}, std::vector<uint8_t>(210, 9));
  VocabularyBuilder ranked = VocabularyBuilder::byte_level("llama-bpe");
  ranked.merge("h", "e").merge("l", "l").token("<|im_start|>", musaic::llm::TokenType::kControl);
  ranked.token("<|im_end|>", musaic::llm::TokenType::kControl);
  VocabularyBuilder tiny;
  tiny.vocabulary.model = "gpt2";
  tiny.vocabulary.pre = "smollm";
  tiny.token("H").token("e").token("l").token("o").merge("l", "l").merge("e", "ll");
  VocabularyBuilder scored = VocabularyBuilder::scored();
  scored.token("\xE2\x96\x81").token("H").token("e").token("He");
  VocabularyBuilder tiny_scored;
  tiny_scored.vocabulary.model = "llama";
  tiny_scored.token("<unk>", musaic::llm::TokenType::kUnknown).token("a").token("aa");
  return {GgufWriter(),
          values,
          tensors,
          with_vocabulary(ranked.vocabulary),
          with_vocabulary(tiny.vocabulary),
          with_vocabulary(scored.vocabulary),
          with_vocabulary(tiny_scored.vocabulary)};
}

std::vector<std::string> text_seeds() {
  return {"hello hello's 123 <|im_start|>user\n\n  x<|im_end|>",
          "\xE6\xAD\xAA \xE6\xAD \xF0\x9F\x98\x80 \xFF\xC0",
          "aaaaaaaaaaaaaaaa     \r\n\t\t",
          std::string("a\0b\x7F", 4),
          "[INST] <s> <0x41> \xE2\x96\x81hello",
          "It's I'LL \xC5\xBF \xD9\xA3\xD9\xA4 \xE1\xA0\x8E\xE3\x80\x80 A1b2C3 $%&/()=? \xCC\x81"};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: make_corpus DIRECTORY\n";
    return 1;
  }
  const std::filesystem::path root = argv[1];
  std::filesystem::create_directories(root / "gguf");
  std::filesystem::create_directories(root / "tokenizer");
  int n = 0;
  for (const GgufWriter& writer : gguf_seeds()) {
    writer.write((root / "gguf" / ("seed" + std::to_string(n++) + ".gguf")).string());
  }
  for (const std::string& text : text_seeds()) {
    for (const int pick : {1, 5, 9, 12, 14, 15, 128 + 1, 128 + 15}) {
      std::ofstream file(root / "tokenizer" / ("seed" + std::to_string(n++)), std::ios::binary);
      file << static_cast<char>(pick) << text;
      if (!file) throw std::runtime_error("cannot write a seed");
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "make_corpus: " << error.what() << '\n';
  return 1;
}
