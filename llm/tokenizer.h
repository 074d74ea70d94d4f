// Text to token ids and back, with the vocabulary and the rules that a GGUF file carries.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace musaic::llm {

class GgufFile;

/// Kinds of tokens, with the file format's numbers.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// Everything that decides how text becomes tokens.
struct Vocabulary {
  /// Reads tokenizer.ggml.* from the file; the texts stay in the file. Throws as Tokenizer::from_gguf does.
  static Vocabulary from_gguf(const GgufFile& file);

  std::string source = "vocabulary";  ///< stands in error texts
  std::string model;  ///< "gpt2": byte-level BPE; "llama": SentencePiece BPE with byte fallback
  std::string pre;    ///< name of the pre-tokenizer; "gpt2" only
  std::vector<std::string_view> tokens;
  std::vector<int32_t> types;            ///< TokenType per token; empty: all normal
  std::vector<float> scores;             ///< per token; "llama" only
  std::vector<std::string_view> merges;  ///< "left right", best first; "gpt2" only
  std::optional<bool> ignore_merges;  ///< whole pieces are looked up before merging; nothing: as `pre` has it
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::optional<uint64_t> bos, eos, eot, unknown;  ///< token ids
};

/// A tokenizer. Immutable after it was made: const calls from many threads at a time are safe. Movable.
///
/// User text never yields control tokens: markers such as "<|im_end|>" in it are ordinary characters, unless
/// the caller asks for `parse_special`. That holds for user-defined tokens too, since real files mark role
/// names so.
class Tokenizer {
 public:
  /// Reads tokenizer.ggml.* from the file. Throws musaic::Error, naming file and key, for a missing or
  /// malformed table, arrays of different lengths, merges that name no token, and for unknown models and
  /// pre-tokenizers, with the list of those that are known. The tokenizer copies what it needs: the file may
  /// be closed.
  static Tokenizer from_gguf(const GgufFile& file);

  /// The same from a table in memory.
  explicit Tokenizer(const Vocabulary& vocabulary);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Token ids of `text`, without begin or end tokens. Takes any bytes, valid UTF-8 or not; bytes that are
  /// not UTF-8 become byte tokens. With `parse_special` the texts of control and user-defined tokens in
  /// `text` become these tokens, the leftmost and then the longest first. `decode` gives `text` back. Time
  /// O(n log n) for n bytes, memory O(n), no recursion.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = false) const;

  /// `encode` with the begin and end tokens that the file asks for.
  std::vector<int32_t> encode_prompt(std::string_view text, bool parse_special = false) const;

  /// Bytes of the ids, the inverse of `encode`: the space that "llama" vocabularies put before a text is
  /// taken off again. Control tokens give their text if `keep_special`, else nothing. Throws musaic::Error
  /// for an id outside [0, size()).
  std::string decode(std::span<const int32_t> ids, bool keep_special = true) const;

  /// Bytes of one token; control tokens give their text. For printing a continuation token by token.
  std::string_view token_bytes(int32_t id) const;

  int32_t size() const noexcept;
  TokenType type(int32_t id) const;
  /// True for control and unknown tokens: markers, never text.
  bool is_control(int32_t id) const;
  /// True for tokens that end an answer: eos, eot, and control tokens with the well-known names of such
  /// markers.
  bool is_end(int32_t id) const;

  /// The id of the control or user-defined token with this text, or nothing.
  std::optional<int32_t> find_special(std::string_view text) const;

  std::optional<int32_t> bos() const noexcept;
  std::optional<int32_t> eos() const noexcept;
  bool add_bos() const noexcept;
  bool add_eos() const noexcept;

  /// Names of the pre-tokenizers that "gpt2" vocabularies may ask for.
  static std::vector<std::string_view> pre_tokenizers();

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace musaic::llm
