#include "llm/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <unordered_map>
#include <utility>

#include "llm/gguf.h"
#include "llm/utf8.h"
#include "musaic/error.h"

namespace musaic::llm {

namespace {

/// A piece of text longer than this is cut before merging, so that positions fit into 32 bits.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space in "llama" vocabularies

// ---- Pre-tokenizers
// -------------------------------------------------------------------------------------------

/// How text is cut into pieces before merging: each pattern in turn splits the pieces of the one before it
/// into its matches and what lies between them.
struct PreTokenizer {
  std::string_view name;
  std::array<const char*, 4> patterns;  // unused ones are nullptr
  bool ignore_merges;
  bool add_bos;
};

// \s and \S stand for the Unicode property White_Space, see expand_space.
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kOneDigit = R"(\p{N})";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr PreTokenizer kPreTokenizers[] = {
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", R"([0-9][0-9][0-9])"}, false, false},
    {"gpt-2", {kGpt2}, false, false},
    {"olmo", {kGpt2}, false, false},
    {"mpt", {kGpt2}, false, false},
    {"phi-2", {kGpt2}, false, false},
    {"smollm", {kOneDigit, kGpt2}, false, false},
    {"starcoder", {kOneDigit, kGpt2}, false, false},
    {"refact", {kOneDigit, kGpt2}, false, false},
    {"command-r", {kOneDigit, kGpt2}, false, false},
    {"llama-bpe", {kLlama3}, true, true},
    {"llama3", {kLlama3}, true, true},
    {"llama-v3", {kLlama3}, true, true},
    {"qwen2", {kQwen2}, false, false},
    {"deepseek-r1-qwen", {kQwen2}, false, false},
    {"tekken", {kTekken}, true, true},
};

const PreTokenizer& find_pre_tokenizer(const Vocabulary& vocabulary) {
  std::string known = "one of";
  for (const PreTokenizer& pre : kPreTokenizers) {
    if (pre.name == vocabulary.pre) return pre;
    known += ' ';
    known += pre.name;
  }
  throw Error(vocabulary.source, "tokenizer.ggml.pre",
              vocabulary.pre.empty() ? "no pre-tokenizer name" : quoted(vocabulary.pre), known);
}

/// Replaces \s and \S by the White_Space property of Unicode, spelt out. PCRE2's own \s has U+180E as well,
/// which the tokenizers that the vocabularies were made with do not count as a space.
std::string expand_space(std::string_view pattern) {
  constexpr std::string_view kSpaces =
      R"(\x{09}-\x{0D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += in_class ? std::string(kSpaces) : '[' + std::string(kSpaces) + ']';
    } else if (escaped == 'S') {
      out += "[^" + std::string(kSpaces) + ']';
    } else {
      out += {c, escaped};
    }
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

/// Cuts valid UTF-8 into its matches of a pattern and the stretches between them.
class Splitter {
 public:
  explicit Splitter(const char* pattern) {
    const std::string expanded = expand_space(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (code_ == nullptr)
      throw Error("pre-tokenizer", pattern, "PCRE2 error " + std::to_string(error), "no error");
    // Where the system forbids code made at run time, PCRE2 interprets the pattern: slower, the same matches.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  /// Calls `emit(piece)` for all pieces of `text` in order. An error of the matcher (its limits on steps and
  /// memory) makes the rest of the text one piece: other tokens than a larger limit would give, and the same
  /// bytes.
  template <typename Emit>
  void split(std::string_view text, pcre2_match_data* match, Emit emit) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t at = 0;
    while (at < text.size()) {
      const int found =
          pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, match, nullptr);
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
      if (found < 0 || range[1] <= range[0] || range[0] < at) break;
      if (range[0] > at) emit(text.substr(at, range[0] - at));
      emit(text.substr(range[0], range[1] - range[0]));
      at = range[1];
    }
    if (at < text.size()) emit(text.substr(at));
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

// ---- Byte-level vocabularies
// ----------------------------------------------------------------------------------

/// The character that byte-level vocabularies write for each byte: printable Latin-1 characters for
/// themselves, U+0100 and up for the other bytes in order.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
    characters[b] = printable ? char32_t{b} : next++;
  }
  return characters;
}

/// Bytes that a byte-level token stands for; nothing when it has a character that stands for no byte.
std::optional<std::string> bytes_of_token(std::string_view token) {
  static const std::array<int16_t, 0x200> kBytes = [] {
    std::array<int16_t, 0x200> bytes;
    bytes.fill(-1);
    const auto characters = byte_characters();
    for (size_t b = 0; b < 256; ++b) bytes[characters[b]] = static_cast<int16_t>(b);
    return bytes;
  }();
  std::string out;
  while (!token.empty()) {
    const Utf8Step step = utf8_step(token);
    if (step.kind != Utf8Kind::kValid || step.character >= kBytes.size() || kBytes[step.character] < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(kBytes[step.character]);
    token.remove_prefix(step.bytes);
  }
  return out;
}

struct Merge {
  int32_t left, right, result;
};

/// Rank of the merge of two tokens: a hash table with open addressing, since this look-up is where encoding
/// spends its time.
class MergeTable {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  explicit MergeTable(size_t merges = 0)
      : slots_(std::bit_ceil(2 * merges + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  /// False when the pair is there already.
  bool insert(int32_t left, int32_t right, uint32_t rank) {
    const uint64_t key = make_key(left, right);
    size_t i = first_slot(key);
    for (; slots_[i].rank != kNone; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return false;
    }
    slots_[i] = {key, rank};
    return true;
  }

  uint32_t find(int32_t left, int32_t right) const {
    const uint64_t key = make_key(left, right);
    for (size_t i = first_slot(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].rank == kNone || slots_[i].key == key) return slots_[i].rank;
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t rank = kNone;
  };

  static uint64_t make_key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  size_t first_slot(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_); }

  std::vector<Slot> slots_;  // a power of two, at most half full
  int shift_;
};

// ---- Both kinds
// -----------------------------------------------------------------------------------------------

struct Symbol {
  uint32_t begin, bytes;  // in the text that is being merged
  int32_t id;             // -1: no token of its own, or merged into the symbol on its left
  int32_t previous, next;
};

void link(std::vector<Symbol>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i + 1) : -1;
  }
}

/// Takes `right` out of the list; its bytes now belong to `left`.
void join(std::vector<Symbol>& symbols, int32_t left, int32_t right, int32_t id) {
  Symbol& l = symbols[static_cast<size_t>(left)];
  Symbol& r = symbols[static_cast<size_t>(right)];
  l.bytes += r.bytes;
  l.id = id;
  l.next = r.next;
  if (r.next >= 0) symbols[static_cast<size_t>(r.next)].previous = left;
  r.bytes = 0;
  r.id = -1;
}

struct ScoredPair {
  float score;
  int32_t left, right;
  uint32_t bytes;
  int32_t id;

  /// Order of the heap: the best score on top, the leftmost among equals.
  bool operator<(const ScoredPair& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

/// Memory of one call of encode, kept from piece to piece.
struct Scratch {
  std::vector<Symbol> symbols;
  std::vector<uint64_t> ranked;    // heap of rank << 32 | left symbol
  std::vector<ScoredPair> scored;  // heap
  std::vector<std::string_view> pieces, cut;
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
};

/// The value of "<0x41>".
std::optional<uint8_t> byte_token_value(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9', upper = c >= 'A' && c <= 'F', lower = c >= 'a' && c <= 'f';
    if (!digit && !upper && !lower) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(c - (digit ? '0' : upper ? 'A' - 10 : 'a' - 10));
  }
  return static_cast<uint8_t>(value);
}

// Names of control tokens that end an answer in one family of models or another.
constexpr std::string_view kEndMarkers[] = {
    "<|im_end|>",    "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
    "<end_of_turn>", "</s>",          "<EOT>",
};

}  // namespace

struct Tokenizer::Impl {
  std::string source;
  bool byte_level;  // "gpt2"; else "llama"
  bool ignore_merges = false, add_bos = false, add_eos = false, add_space_prefix = false;
  std::optional<int32_t> bos, eos, eot, unknown;

  std::string pool;           // bytes of all tokens, one after the other
  std::vector<size_t> begin;  // of each token in the pool, and the end
  std::vector<TokenType> types;
  std::unordered_map<std::string_view, int32_t> text_ids;      // tokens that text may become, by their bytes
  std::array<int32_t, 256> byte_ids;                           // -1: the vocabulary has no token for the byte
  std::vector<std::pair<std::string_view, int32_t>> specials;  // sorted by text, each text once
  std::vector<bool> ends;

  std::vector<Splitter> splitters;
  std::vector<Merge> merges;  // by rank
  MergeTable merge_table;

  std::vector<float> scores;
  size_t longest_token = 0;

  explicit Impl(const Vocabulary& vocabulary);

  std::string_view bytes(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(pool).substr(begin[i], begin[i + 1] - begin[i]);
  }
  TokenType type(int32_t id) const { return types[static_cast<size_t>(id)]; }
  bool is_special(int32_t id) const {
    return type(id) == TokenType::kControl || type(id) == TokenType::kUserDefined;
  }
  int32_t find_text(std::string_view text) const {
    const auto found = text_ids.find(text);
    return found == text_ids.end() ? -1 : found->second;
  }

  void check(int32_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= types.size()) {
      throw Error(source, "token id", std::to_string(id), "0 to " + std::to_string(types.size() - 1));
    }
  }

  void set_tokens(const Vocabulary& vocabulary);
  void set_ids(const Vocabulary& vocabulary);
  void set_merges(const Vocabulary& vocabulary);
  void set_scores(const Vocabulary& vocabulary);

  std::pair<size_t, int32_t> longest_special(std::string_view text) const;
  void encode_text(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const;
  void encode_byte_level(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const;
  void merge_ranked(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;
  void merge_scored(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const;
  void encode_bytes(std::string_view bytes, std::vector<int32_t>& out) const;
};

Tokenizer::Impl::Impl(const Vocabulary& vocabulary)
    : source(vocabulary.source), byte_level(vocabulary.model == "gpt2") {
  if (!byte_level && vocabulary.model != "llama") {
    throw Error(source, "tokenizer.ggml.model",
                vocabulary.model.empty() ? "no tokenizer model" : quoted(vocabulary.model), "gpt2 or llama");
  }
  set_tokens(vocabulary);
  add_space_prefix = vocabulary.add_space_prefix.value_or(!byte_level);
  bool default_bos = true;
  if (byte_level) {
    const PreTokenizer& pre = find_pre_tokenizer(vocabulary);
    for (const char* pattern : pre.patterns) {
      if (pattern != nullptr) splitters.emplace_back(pattern);
    }
    ignore_merges = vocabulary.ignore_merges.value_or(pre.ignore_merges);
    default_bos = pre.add_bos;
    set_merges(vocabulary);
  } else {
    set_scores(vocabulary);
  }
  set_ids(vocabulary);
  add_bos = vocabulary.add_bos.value_or(default_bos && bos.has_value());
  add_eos = vocabulary.add_eos.value_or(false);
  const auto need = [&](const char* key, bool add, const std::optional<int32_t>& id) {
    if (add && !id) throw Error(source, key, "true, and no such token in the file", "a token id");
  };
  need("tokenizer.ggml.add_bos_token", add_bos, bos);
  need("tokenizer.ggml.add_eos_token", add_eos, eos);
}

void Tokenizer::Impl::set_tokens(const Vocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size();
  if (n == 0 || n > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw Error(source, "tokenizer.ggml.tokens", std::to_string(n) + " tokens", "1 to 2^31 - 1");
  }
  if (!vocabulary.types.empty() && vocabulary.types.size() != n) {
    throw Error(source, "tokenizer.ggml.token_type", std::to_string(vocabulary.types.size()) + " elements",
                std::to_string(n) + " as in tokenizer.ggml.tokens");
  }
  types.assign(n, TokenType::kNormal);
  for (size_t i = 0; i < vocabulary.types.size(); ++i) {
    const int32_t type = vocabulary.types[i];
    if (type < 1 || type > 6) {
      throw Error(source, "tokenizer.ggml.token_type",
                  "element " + std::to_string(i) + " = " + std::to_string(type), "1 (normal) to 6 (byte)");
    }
    types[i] = static_cast<TokenType>(type);
  }

  size_t total = 0;
  for (const std::string_view token : vocabulary.tokens) total += token.size();
  pool.reserve(total);  // no token has more bytes than its text
  begin.reserve(n + 1);
  std::vector<bool> is_text(n, false);
  byte_ids.fill(-1);
  for (size_t i = 0; i < n; ++i) {
    const std::string_view token = vocabulary.tokens[i];
    begin.push_back(pool.size());
    const auto id = static_cast<int32_t>(i);
    const bool plain = types[i] == TokenType::kNormal || types[i] == TokenType::kByte;
    if (byte_level) {
      // User-defined tokens are written as they are, and are text as well where that is the byte-level form
      // too.
      const auto decoded =
          plain || types[i] == TokenType::kUserDefined ? bytes_of_token(token) : std::nullopt;
      is_text[i] = !token.empty() && decoded && (plain || *decoded == token);
      pool += is_text[i] ? std::string_view(*decoded) : token;
    } else if (types[i] == TokenType::kByte) {
      const auto value = byte_token_value(token);
      if (!value) {
        throw Error(source, "tokenizer.ggml.tokens",
                    "byte token " + std::to_string(i) + " = " + quoted(token), "a name like <0x41>");
      }
      if (byte_ids[*value] < 0) byte_ids[*value] = id;
      pool += static_cast<char>(*value);
    } else if (plain || types[i] == TokenType::kUserDefined) {
      for (std::string_view rest = token; !rest.empty();) {
        const bool space = rest.substr(0, kSpaceMark.size()) == kSpaceMark;
        pool += space ? ' ' : rest[0];
        rest.remove_prefix(space ? kSpaceMark.size() : 1);
      }
      is_text[i] = plain && !token.empty();
    } else {
      pool += token;
    }
  }
  begin.push_back(pool.size());

  // The first of two tokens with the same text wins, here and among the special tokens.
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<int32_t>(i);
    if (is_text[i]) {
      text_ids.emplace(bytes(id), id);
      longest_token = std::max(longest_token, bytes(id).size());
    }
    if (is_special(id) && !bytes(id).empty()) specials.emplace_back(bytes(id), id);
  }
  std::sort(specials.begin(), specials.end());
  const auto same_text = [](const auto& a, const auto& b) { return a.first == b.first; };
  specials.erase(std::unique(specials.begin(), specials.end(), same_text), specials.end());
  if (byte_level) {
    for (size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      byte_ids[b] = find_text({&byte, 1});
    }
  }
}

void Tokenizer::Impl::set_ids(const Vocabulary& vocabulary) {
  const auto checked = [&](const char* key, std::optional<uint64_t> id,
                           int32_t by_default) -> std::optional<int32_t> {
    if (id && *id >= types.size()) {
      throw Error(source, key, std::to_string(*id), "a token id below " + std::to_string(types.size()));
    }
    if (id) return static_cast<int32_t>(*id);
    if (!byte_level && by_default >= 0 && static_cast<size_t>(by_default) < types.size()) return by_default;
    return std::nullopt;
  };
  // The defaults are those of SentencePiece.
  bos = checked("tokenizer.ggml.bos_token_id", vocabulary.bos, 1);
  eos = checked("tokenizer.ggml.eos_token_id", vocabulary.eos, 2);
  eot = checked("tokenizer.ggml.eot_token_id", vocabulary.eot, -1);
  unknown = checked("tokenizer.ggml.unknown_token_id", vocabulary.unknown, 0);
  ends.assign(types.size(), false);
  if (eos) ends[static_cast<size_t>(*eos)] = true;
  if (eot) ends[static_cast<size_t>(*eot)] = true;
  for (const auto& [text, id] : specials) {
    if (std::find(std::begin(kEndMarkers), std::end(kEndMarkers), text) != std::end(kEndMarkers)) {
      ends[static_cast<size_t>(id)] = true;
    }
  }
}

void Tokenizer::Impl::set_merges(const Vocabulary& vocabulary) {
  merge_table = MergeTable(vocabulary.merges.size());
  merges.reserve(vocabulary.merges.size());
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view text = vocabulary.merges[i];
    const auto fail = [&](const std::string& expected) {
      throw Error(source, "tokenizer.ggml.merges", "element " + std::to_string(i) + " = " + quoted(text),
                  expected);
    };
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string_view::npos) {
      fail("two tokens with one space between them");
    }
    const auto left = bytes_of_token(text.substr(0, space));
    const auto right = bytes_of_token(text.substr(space + 1));
    if (!left || !right) fail("characters that stand for bytes");
    const Merge merge{find_text(*left), find_text(*right), find_text(*left + *right)};
    if (merge.left < 0) fail("a left side that is a token");
    if (merge.right < 0) fail("a right side that is a token");
    if (merge.result < 0) fail("sides that make a token together");
    // Of a merge that is there twice the better rank counts.
    if (merge_table.insert(merge.left, merge.right, static_cast<uint32_t>(merges.size())))
      merges.push_back(merge);
  }
}

void Tokenizer::Impl::set_scores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.size() != types.size()) {
    throw Error(source, "tokenizer.ggml.scores", std::to_string(vocabulary.scores.size()) + " elements",
                std::to_string(types.size()) + " as in tokenizer.ggml.tokens");
  }
  scores = vocabulary.scores;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) {
      throw Error(source, "tokenizer.ggml.scores", "element " + std::to_string(i) + " = NaN", "a number");
    }
  }
}

/// Bytes and id of the longest special token that `text` begins with; 0 and -1 when there is none.
std::pair<size_t, int32_t> Tokenizer::Impl::longest_special(std::string_view text) const {
  std::pair<size_t, int32_t> best{0, -1};
  auto low = specials.begin(), high = specials.end();
  for (size_t depth = 0; low != high; ++depth) {
    // All of [low, high) begin with the first `depth` bytes of the text; the shortest stands first.
    if (low->first.size() == depth) {
      best = {depth, low->second};
      if (++low == high) break;
    }
    if (depth == text.size()) break;
    const auto wanted = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [depth](const auto& special) {
      return static_cast<unsigned char>(special.first[depth]);
    };
    low = std::partition_point(low, high, [&](const auto& special) { return byte_at(special) < wanted; });
    high = std::partition_point(low, high, [&](const auto& special) { return byte_at(special) == wanted; });
  }
  return best;
}

void Tokenizer::Impl::encode_text(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
  if (text.empty()) return;
  std::string prefixed;
  if (add_space_prefix) {
    prefixed.reserve(text.size() + 1);
    prefixed = ' ';
    prefixed += text;
    text = prefixed;
  }
  // Stretches of valid UTF-8 go through the rules of the vocabulary; other bytes stand for themselves, and so
  // does the character that "llama" vocabularies use for a space: as a token it would come back as a space.
  size_t from = 0, at = 0;
  const auto flush = [&] {
    while (from < at) {
      size_t end = at;
      if (end - from > kMaxPieceBytes) {
        end = from + kMaxPieceBytes;
        while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
      }
      const std::string_view valid = text.substr(from, end - from);
      byte_level ? encode_byte_level(valid, scratch, out) : merge_scored(valid, scratch, out);
      from = end;
    }
  };
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind == Utf8Kind::kValid && (byte_level || step.character != 0x2581)) {
      at += step.bytes;
      continue;
    }
    flush();
    if (byte_level) {
      merge_ranked(text.substr(at, step.bytes), scratch, out);
    } else {
      encode_bytes(text.substr(at, step.bytes), out);
    }
    from = at += step.bytes;
  }
  flush();
}

void Tokenizer::Impl::encode_byte_level(std::string_view text, Scratch& scratch,
                                        std::vector<int32_t>& out) const {
  if (scratch.match == nullptr) {
    scratch.match.reset(pcre2_match_data_create(1, nullptr));
    if (scratch.match == nullptr) throw std::bad_alloc();
  }
  scratch.pieces.assign(1, text);
  for (size_t i = 0; i + 1 < splitters.size(); ++i) {
    scratch.cut.clear();
    for (const std::string_view piece : scratch.pieces) {
      splitters[i].split(piece, scratch.match.get(),
                         [&](std::string_view part) { scratch.cut.push_back(part); });
    }
    scratch.pieces.swap(scratch.cut);
  }
  for (const std::string_view piece : scratch.pieces) {
    splitters.back().split(piece, scratch.match.get(), [&](std::string_view part) {
      const int32_t whole = ignore_merges ? find_text(part) : -1;
      whole >= 0 ? out.push_back(whole) : merge_ranked(part, scratch, out);
    });
  }
}

/// Byte-pair encoding of one piece: of all neighbours that a merge joins, the pair with the best rank is
/// joined first, the leftmost of equals, until no pair is left. A heap of candidates makes that O(n log n).
void Tokenizer::Impl::merge_ranked(std::string_view piece, Scratch& scratch,
                                   std::vector<int32_t>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.ranked;
  symbols.clear();
  heap.clear();
  for (size_t i = 0; i < piece.size(); ++i) {
    const int32_t id = byte_ids[static_cast<unsigned char>(piece[i])];
    if (id >= 0) symbols.push_back({static_cast<uint32_t>(i), 1, id, 0, 0});
  }
  if (symbols.size() == 1) {
    out.push_back(symbols[0].id);
    return;
  }
  link(symbols);

  const auto rank_of = [&](int32_t left, int32_t right) {
    return merge_table.find(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
  };
  const auto entry = [](uint32_t rank, int32_t left) {
    return (static_cast<uint64_t>(rank) << 32) | static_cast<uint32_t>(left);
  };
  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const uint32_t rank = rank_of(left, right);
    if (rank == MergeTable::kNone) return;
    heap.push_back(entry(rank, left));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    const uint32_t rank = rank_of(static_cast<int32_t>(i), static_cast<int32_t>(i + 1));
    if (rank != MergeTable::kNone) heap.push_back(entry(rank, static_cast<int32_t>(i)));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    const Merge& merge = merges[static_cast<size_t>(heap.front() >> 32)];
    const auto left = static_cast<int32_t>(heap.front() & 0xFFFFFFFFu);
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    // One of the two may have been joined to something else since the pair was found.
    const int32_t right = symbols[static_cast<size_t>(left)].next;
    if (right < 0 || symbols[static_cast<size_t>(left)].id != merge.left ||
        symbols[static_cast<size_t>(right)].id != merge.right) {
      continue;
    }
    join(symbols, left, right, merge.result);
    push(symbols[static_cast<size_t>(left)].previous, left);
    push(left, symbols[static_cast<size_t>(left)].next);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) out.push_back(symbol.id);
  }
}

/// The same with scores in place of ranks: any two neighbours whose bytes make a token can be joined, the
/// token with the best score first. Characters that are no token become byte tokens.
void Tokenizer::Impl::merge_scored(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.scored;
  symbols.clear();
  heap.clear();
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = utf8_step(text.substr(i)).bytes;
    symbols.push_back(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(bytes), find_text(text.substr(i, bytes)), 0, 0});
    i += bytes;
  }
  link(symbols);

  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& l = symbols[static_cast<size_t>(left)];
    const uint32_t bytes = l.bytes + symbols[static_cast<size_t>(right)].bytes;
    if (bytes > longest_token) return;
    const int32_t id = find_text(text.substr(l.begin, bytes));
    if (id < 0) return;
    heap.push_back({scores[static_cast<size_t>(id)], left, right, bytes, id});
    std::push_heap(heap.begin(), heap.end());
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) push(static_cast<int32_t>(i), static_cast<int32_t>(i + 1));

  while (!heap.empty()) {
    const ScoredPair pair = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    // Symbols only grow, so the pair is as it was found when both are there and the bytes add up.
    const Symbol& l = symbols[static_cast<size_t>(pair.left)];
    const Symbol& r = symbols[static_cast<size_t>(pair.right)];
    if (l.bytes == 0 || r.bytes == 0 || l.bytes + r.bytes != pair.bytes) continue;
    join(symbols, pair.left, pair.right, pair.id);
    push(l.previous, pair.left);
    push(pair.left, l.next);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.bytes == 0) continue;
    symbol.id >= 0 ? out.push_back(symbol.id) : encode_bytes(text.substr(symbol.begin, symbol.bytes), out);
  }
}

void Tokenizer::Impl::encode_bytes(std::string_view bytes, std::vector<int32_t>& out) const {
  for (const char c : bytes) {
    const int32_t id = byte_ids[static_cast<unsigned char>(c)];
    if (id >= 0) {
      out.push_back(id);
    } else if (unknown) {
      out.push_back(*unknown);
    }
  }
}

Tokenizer::Tokenizer(const Vocabulary& vocabulary) : impl_(std::make_unique<Impl>(vocabulary)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Vocabulary Vocabulary::from_gguf(const GgufFile& file) {
  const auto text = [&](const char* key) {
    return std::string(file.find_string(key).value_or(std::string_view()));
  };
  const auto has = [&](const char* key) { return file.find(key) != nullptr; };
  Vocabulary vocabulary;
  vocabulary.source = file.name();
  vocabulary.model = text("tokenizer.ggml.model");
  vocabulary.pre = text("tokenizer.ggml.pre");
  vocabulary.tokens = file.get_strings("tokenizer.ggml.tokens");
  const bool scored = vocabulary.model == "llama";
  if (scored || has("tokenizer.ggml.scores")) vocabulary.scores = file.get_f32s("tokenizer.ggml.scores");
  if (scored || has("tokenizer.ggml.token_type"))
    vocabulary.types = file.get_i32s("tokenizer.ggml.token_type");
  if (vocabulary.model == "gpt2") vocabulary.merges = file.get_strings("tokenizer.ggml.merges");
  vocabulary.ignore_merges = file.find_bool("tokenizer.ggml.ignore_merges");
  vocabulary.add_bos = file.find_bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = file.find_bool("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  vocabulary.bos = file.find_u64("tokenizer.ggml.bos_token_id");
  vocabulary.eos = file.find_u64("tokenizer.ggml.eos_token_id");
  vocabulary.eot = file.find_u64("tokenizer.ggml.eot_token_id");
  vocabulary.unknown = file.find_u64("tokenizer.ggml.unknown_token_id");
  return vocabulary;
}

Tokenizer Tokenizer::from_gguf(const GgufFile& file) { return Tokenizer(Vocabulary::from_gguf(file)); }

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  Scratch scratch;
  std::vector<int32_t> out;
  size_t from = 0;
  if (parse_special && !impl_->specials.empty()) {
    std::array<bool, 256> starts{};
    for (const auto& special : impl_->specials) starts[static_cast<unsigned char>(special.first[0])] = true;
    for (size_t at = 0; at < text.size();) {
      const auto [bytes, id] = starts[static_cast<unsigned char>(text[at])]
                                   ? impl_->longest_special(text.substr(at))
                                   : std::pair<size_t, int32_t>{0, -1};
      if (id < 0) {
        ++at;
        continue;
      }
      impl_->encode_text(text.substr(from, at - from), scratch, out);
      out.push_back(id);
      from = at += bytes;
    }
  }
  impl_->encode_text(text.substr(from), scratch, out);
  return out;
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text, bool parse_special) const {
  std::vector<int32_t> ids = encode(text, parse_special);
  if (impl_->add_bos) ids.insert(ids.begin(), *impl_->bos);
  if (impl_->add_eos) ids.push_back(*impl_->eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string out;
  bool begins = true;
  for (const int32_t id : ids) {
    impl_->check(id);
    std::string_view bytes = impl_->bytes(id);
    if (is_control(id) || impl_->is_special(id)) {
      if (keep_special || !is_control(id)) out += bytes;
      begins = true;
      continue;
    }
    if (begins && impl_->add_space_prefix && !bytes.empty() && bytes[0] == ' ') bytes.remove_prefix(1);
    begins = false;
    out += bytes;
  }
  return out;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  impl_->check(id);
  return impl_->bytes(id);
}

int32_t Tokenizer::size() const noexcept { return static_cast<int32_t>(impl_->types.size()); }

TokenType Tokenizer::type(int32_t id) const {
  impl_->check(id);
  return impl_->type(id);
}

bool Tokenizer::is_control(int32_t id) const {
  const TokenType kind = type(id);
  return kind == TokenType::kControl || kind == TokenType::kUnknown || kind == TokenType::kUnused;
}

bool Tokenizer::is_end(int32_t id) const {
  impl_->check(id);
  return impl_->ends[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::find_special(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const auto [bytes, id] = impl_->longest_special(text);
  return bytes == text.size() ? std::optional(id) : std::nullopt;
}

std::optional<int32_t> Tokenizer::bos() const noexcept { return impl_->bos; }
std::optional<int32_t> Tokenizer::eos() const noexcept { return impl_->eos; }
bool Tokenizer::add_bos() const noexcept { return impl_->add_bos; }
bool Tokenizer::add_eos() const noexcept { return impl_->add_eos; }

std::vector<std::string_view> Tokenizer::pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& pre : kPreTokenizers) names.push_back(pre.name);
  return names;
}

}  // namespace musaic::llm
