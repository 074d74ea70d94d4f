// GGUF files, versions 2 and 3, little endian: metadata and tensors, checked as a whole before anything is
// used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/mapping.h"

namespace musaic::llm {

/// Element types of tensors, with the numbers that the file format gives them.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
};

/// How a tensor type is stored: `block_elements` values in `block_bytes` bytes.
struct GgmlTypeInfo {
  GgmlType type;
  const char* name;
  int64_t block_elements;
  int64_t block_bytes;
};

/// All types that the reader knows, in the order of their numbers. Whether a model can run with a type is for
/// the model to say.
std::span<const GgmlTypeInfo> ggml_types() noexcept;

/// The entry for `type`; throws musaic::Error for a number that is not in the table.
const GgmlTypeInfo& ggml_type_info(GgmlType type);

/// Types of metadata values, with the file format's numbers.
enum class GgufValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// "u32", "string", ...; "type 99" cannot occur in a file that was opened.
const char* gguf_value_type_name(GgufValueType type) noexcept;

/// One metadata entry. For an array `element` and `count` describe its elements; else element = type, count
/// = 1.
struct GgufEntry {
  std::string_view key;
  GgufValueType type;
  GgufValueType element;
  uint64_t count;
  const std::byte* value;  ///< first element, unaligned
};

/// One tensor. Lives as long as its GgufFile, as does everything it points to.
struct GgufTensor {
  std::string_view name;
  GgmlType type;
  int n_dims;  ///< 1..4
  std::array<int64_t, 4>
      dims;               ///< innermost first, each at least 1, padded with 1; dims[0] % block_elements == 0
  const std::byte* data;  ///< aligned like the file's data section, relative to the start of the file
  uint64_t bytes;

  int64_t elements() const noexcept { return dims[0] * dims[1] * dims[2] * dims[3]; }
  int64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
  std::string dims_text() const;  ///< "[576, 1536]"
};

/// A GGUF file that has passed all checks: sizes, counts, offsets, alignment, unique names, no overlap, each
/// tensor whole inside the file and the padding behind the last one there. Movable; const calls are
/// thread-safe.
///
/// All errors are musaic::Error and name the file and the key or tensor. Memory: below 100 bytes for each
/// entry and tensor; nothing is copied out of the file.
class GgufFile {
 public:
  /// Maps and checks the file at `path`.
  static GgufFile open(const std::string& path);

  /// Checks a file that is in memory already; `bytes` must outlive the result. `name` stands in error texts.
  static GgufFile parse(std::span<const std::byte> bytes, std::string name = "memory");

  const std::string& name() const noexcept { return name_; }  ///< the path, for error texts
  uint32_t version() const noexcept { return version_; }      ///< 2 or 3
  uint64_t alignment() const noexcept {
    return alignment_;
  }  ///< power of two, at least 8; 32 unless the file says
  uint64_t file_bytes() const noexcept { return bytes_.size(); }

  /// All entries and tensors in the order of the file.
  std::span<const GgufEntry> entries() const noexcept { return entries_; }
  std::span<const GgufTensor> tensors() const noexcept { return tensors_; }

  /// The entry, or nullptr.
  const GgufEntry* find(std::string_view key) const noexcept;

  /// The value of `key`, nothing when the file does not have the key, musaic::Error when its type is another
  /// one. Whole numbers are taken from any integer type of the file if the value fits; f32 from f32 and f64.
  std::optional<uint64_t> find_u64(std::string_view key) const;
  std::optional<float> find_f32(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;

  /// The value of `key`; musaic::Error when it is missing, of another type, or outside [min, max].
  uint64_t get_u64(std::string_view key, uint64_t min = 0, uint64_t max = UINT64_MAX) const;
  float get_f32(std::string_view key) const;
  bool get_bool(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;

  /// The array `key`: strings from strings, f32 from f32, i32 from i32 and u32 (values up to 2^31 - 1).
  /// musaic::Error when it is missing, not an array or has elements of another type.
  std::vector<std::string_view> get_strings(std::string_view key) const;
  std::vector<float> get_f32s(std::string_view key) const;
  std::vector<int32_t> get_i32s(std::string_view key) const;

  /// The tensor, or nullptr.
  const GgufTensor* find_tensor(std::string_view name) const noexcept;
  /// The tensor; musaic::Error when the file does not have it.
  const GgufTensor& tensor(std::string_view name) const;

  /// Throws musaic::Error when the mapped file has changed since it was opened; does nothing after parse().
  void check_unchanged() const;

 private:
  struct Reader;
  Reader reader_at(const std::byte* value) const;
  void read_all();
  void read_metadata(Reader& in, uint64_t count);
  void read_tensors(Reader& in, uint64_t count);
  [[noreturn]] void fail_type(const GgufEntry& entry, const std::string& expected) const;
  [[noreturn]] void fail_missing(std::string_view key, const std::string& expected) const;
  const GgufEntry& array(std::string_view key, const std::string& expected) const;

  std::string name_;
  MappedFile map_;
  std::span<const std::byte> bytes_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> entry_order_, tensor_order_;  // sorted by key and name
};

/// `text` for an error message: in double quotes, control and non-ASCII bytes as \xNN, cut after 60 bytes.
std::string quoted(std::string_view text);

}  // namespace musaic::llm
