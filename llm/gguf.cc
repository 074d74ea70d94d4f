#include "llm/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "musaic/error.h"

namespace musaic::llm {

static_assert(std::endian::native == std::endian::little, "values are copied out of little-endian files");

namespace {

constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 64;

// The fewest bytes that an entry or a tensor takes: a count that the rest of the file cannot hold is an error
// before anything is read.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

constexpr GgmlTypeInfo kTypes[] = {
    {GgmlType::kF32, "F32", 1, 4},
    {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kQ4_0, "Q4_0", 32, 18},
    {GgmlType::kQ4_1, "Q4_1", 32, 20},
    {GgmlType::kQ5_0, "Q5_0", 32, 22},
    {GgmlType::kQ5_1, "Q5_1", 32, 24},
    {GgmlType::kQ8_0, "Q8_0", 32, 34},
    {GgmlType::kQ8_1, "Q8_1", 32, 40},
    {GgmlType::kQ2_K, "Q2_K", 256, 84},
    {GgmlType::kQ3_K, "Q3_K", 256, 110},
    {GgmlType::kQ4_K, "Q4_K", 256, 144},
    {GgmlType::kQ5_K, "Q5_K", 256, 176},
    {GgmlType::kQ6_K, "Q6_K", 256, 210},
    {GgmlType::kQ8_K, "Q8_K", 256, 292},
    {GgmlType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    {GgmlType::kIQ2_XS, "IQ2_XS", 256, 74},
    {GgmlType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    {GgmlType::kIQ1_S, "IQ1_S", 256, 50},
    {GgmlType::kIQ4_NL, "IQ4_NL", 32, 18},
    {GgmlType::kIQ3_S, "IQ3_S", 256, 110},
    {GgmlType::kIQ2_S, "IQ2_S", 256, 82},
    {GgmlType::kIQ4_XS, "IQ4_XS", 256, 136},
    {GgmlType::kI8, "I8", 1, 1},
    {GgmlType::kI16, "I16", 1, 2},
    {GgmlType::kI32, "I32", 1, 4},
    {GgmlType::kI64, "I64", 1, 8},
    {GgmlType::kF64, "F64", 1, 8},
    {GgmlType::kIQ1_M, "IQ1_M", 256, 56},
    {GgmlType::kBF16, "BF16", 1, 2},
    {GgmlType::kTQ1_0, "TQ1_0", 256, 54},
    {GgmlType::kTQ2_0, "TQ2_0", 256, 66},
    {GgmlType::kMXFP4, "MXFP4", 32, 17},
    {GgmlType::kNVFP4, "NVFP4", 64, 36},
    {GgmlType::kQ1_0, "Q1_0", 128, 18},
};

const GgmlTypeInfo* find_type(uint32_t id) {
  for (const GgmlTypeInfo& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == id) return &info;
  }
  return nullptr;
}

std::string type_list() {
  std::string list = "one of";
  for (const GgmlTypeInfo& info : kTypes) {
    list += ' ' + std::to_string(static_cast<uint32_t>(info.type)) + '=' + info.name;
  }
  return list;
}

/// Bytes of one value; 0 for strings, arrays and numbers that are no type.
uint64_t scalar_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      break;
  }
  return 0;
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string bytes_text(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

bool multiply(uint64_t a, uint64_t b, uint64_t* product) { return !__builtin_mul_overflow(a, b, product); }

/// value rounded up to a multiple of `alignment` (a power of two); false when that overflows.
bool align_up(uint64_t value, uint64_t alignment, uint64_t* aligned) {
  if (__builtin_add_overflow(value, alignment - 1, aligned)) return false;
  *aligned &= ~(alignment - 1);
  return true;
}

std::string describe(const GgufEntry& entry) {
  const std::string type = gguf_value_type_name(entry.element);
  return entry.type == GgufValueType::kArray ? "array of " + std::to_string(entry.count) + ' ' + type : type;
}

/// Integer value of an entry, split into sign and magnitude; nothing when the entry is no integer.
std::optional<std::pair<bool, uint64_t>> integer(const GgufEntry& entry) {
  const auto from_signed = [](int64_t v) {
    return std::pair(v < 0, v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v));
  };
  switch (entry.type) {
    case GgufValueType::kU8:
      return std::pair(false, uint64_t{load<uint8_t>(entry.value)});
    case GgufValueType::kU16:
      return std::pair(false, uint64_t{load<uint16_t>(entry.value)});
    case GgufValueType::kU32:
      return std::pair(false, uint64_t{load<uint32_t>(entry.value)});
    case GgufValueType::kU64:
      return std::pair(false, load<uint64_t>(entry.value));
    case GgufValueType::kI8:
      return from_signed(load<int8_t>(entry.value));
    case GgufValueType::kI16:
      return from_signed(load<int16_t>(entry.value));
    case GgufValueType::kI32:
      return from_signed(load<int32_t>(entry.value));
    case GgufValueType::kI64:
      return from_signed(load<int64_t>(entry.value));
    default:
      return std::nullopt;
  }
}

/// The indexes of `items`, sorted by `name(item)`. Sorting, not hashing: a hostile file must not be able to
/// make the search for duplicates slow.
template <typename T, typename Name>
std::vector<uint32_t> sorted_order(const std::vector<T>& items, Name name) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return name(items[a]) < name(items[b]); });
  return order;
}

template <typename T, typename Name>
const T* find_sorted(const std::vector<T>& items, const std::vector<uint32_t>& order, std::string_view wanted,
                     Name name) {
  const auto at =
      std::lower_bound(order.begin(), order.end(), wanted,
                       [&](uint32_t i, std::string_view value) { return name(items[i]) < value; });
  return at != order.end() && name(items[*at]) == wanted ? &items[*at] : nullptr;
}

std::string_view entry_key(const GgufEntry& entry) { return entry.key; }
std::string_view tensor_name(const GgufTensor& tensor) { return tensor.name; }

}  // namespace

std::span<const GgmlTypeInfo> ggml_types() noexcept { return kTypes; }

const GgmlTypeInfo& ggml_type_info(GgmlType type) {
  const GgmlTypeInfo* info = find_type(static_cast<uint32_t>(type));
  if (info == nullptr) {
    throw Error("ggml_type_info", "type", std::to_string(static_cast<uint32_t>(type)), type_list());
  }
  return *info;
}

const char* gguf_value_type_name(GgufValueType type) noexcept {
  switch (type) {
    case GgufValueType::kU8:
      return "u8";
    case GgufValueType::kI8:
      return "i8";
    case GgufValueType::kU16:
      return "u16";
    case GgufValueType::kI16:
      return "i16";
    case GgufValueType::kU32:
      return "u32";
    case GgufValueType::kI32:
      return "i32";
    case GgufValueType::kF32:
      return "f32";
    case GgufValueType::kBool:
      return "bool";
    case GgufValueType::kString:
      return "string";
    case GgufValueType::kArray:
      return "array";
    case GgufValueType::kU64:
      return "u64";
    case GgufValueType::kI64:
      return "i64";
    case GgufValueType::kF64:
      return "f64";
  }
  return "unknown type";
}

std::string quoted(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\') {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  out += text.size() > kMaxShown ? "...\"" : "\"";
  return out;
}

std::string GgufTensor::dims_text() const {
  std::string text = "[";
  for (int i = 0; i < n_dims; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(dims[static_cast<size_t>(i)]);
  return text + "]";
}

/// A cursor over the file that never leaves it.
struct GgufFile::Reader {
  const std::string& file;
  std::span<const std::byte> bytes;
  uint64_t at = 0;

  uint64_t left() const { return bytes.size() - at; }

  const std::byte* take(uint64_t n, const std::string& what) {
    if (n > left()) {
      throw Error(file, what, "needs " + bytes_text(n) + " at offset " + std::to_string(at),
                  "at most the " + bytes_text(left()) + " that are left of the file");
    }
    const std::byte* data = bytes.data() + at;
    at += n;
    return data;
  }

  template <typename T>
  T number(const std::string& what) {
    return load<T>(take(sizeof(T), what));
  }

  std::string_view string(const std::string& what) {
    const uint64_t length = number<uint64_t>(what);
    return {reinterpret_cast<const char*>(take(length, what)), static_cast<size_t>(length)};
  }
};

// The lengths of strings are read again, and checked again, at each use: the pages of a mapped file can
// change.
GgufFile::Reader GgufFile::reader_at(const std::byte* value) const {
  return {name_, bytes_, static_cast<uint64_t>(value - bytes_.data())};
}

GgufFile GgufFile::open(const std::string& path) {
  GgufFile file;
  file.name_ = path;
  file.map_ = MappedFile::open(path);
  file.bytes_ = file.map_.bytes();
  file.read_all();
  return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile file;
  file.name_ = std::move(name);
  file.bytes_ = bytes;
  file.read_all();
  return file;
}

void GgufFile::read_all() {
  Reader in{name_, bytes_};
  const std::byte* magic = in.take(4, "magic");
  if (std::memcmp(magic, "GGUF", 4) != 0) {
    throw Error(name_, "magic", quoted({reinterpret_cast<const char*>(magic), 4}),
                "\"GGUF\": this is no GGUF file");
  }
  version_ = in.number<uint32_t>("version");
  if (version_ != 2 && version_ != 3) {
    const bool swapped = (version_ & 0xFFFFu) == 0;
    throw Error(name_, "version", std::to_string(version_) + (swapped ? " (a big-endian file)" : ""),
                "2 or 3, little endian");
  }
  const uint64_t tensor_count = in.number<uint64_t>("tensor count");
  const uint64_t entry_count = in.number<uint64_t>("metadata count");
  const auto check_count = [&](const char* what, uint64_t count, uint64_t min_bytes) {
    if (count > in.left() / min_bytes || count > std::numeric_limits<uint32_t>::max()) {
      throw Error(name_, what, std::to_string(count),
                  "at most " + std::to_string(in.left() / min_bytes) + " in the " + bytes_text(in.left()) +
                      " that are left of the file");
    }
  };
  check_count("metadata count", entry_count, kMinEntryBytes);
  check_count("tensor count", tensor_count, kMinTensorBytes);
  read_metadata(in, entry_count);
  read_tensors(in, tensor_count);
}

void GgufFile::read_metadata(Reader& in, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    GgufEntry entry{};
    const std::string nth = "metadata entry " + std::to_string(i);
    entry.key = in.string("key of " + nth);
    if (entry.key.empty()) throw Error(name_, "key of " + nth, "an empty key", "a name");
    if (entry.key.size() > kMaxKeyBytes) {
      throw Error(name_, "key of " + nth, bytes_text(entry.key.size()), "at most 65535 bytes");
    }
    const std::string key = quoted(entry.key);
    const auto read_type = [&](const char* what) {
      const uint32_t id = in.number<uint32_t>(key + what);
      if (id > static_cast<uint32_t>(GgufValueType::kF64)) {
        throw Error(name_, key + what, std::to_string(id), "a value type from 0 (u8) to 12 (f64)");
      }
      return static_cast<GgufValueType>(id);
    };

    entry.type = entry.element = read_type(" (type)");
    entry.count = 1;
    if (entry.type == GgufValueType::kArray) {
      entry.element = read_type(" (element type)");
      if (entry.element == GgufValueType::kArray) {
        throw Error(name_, key, "an array of arrays", "an array of numbers, bools or strings");
      }
      entry.count = in.number<uint64_t>(key + " (element count)");
    }

    entry.value = in.bytes.data() + in.at;
    if (entry.element == GgufValueType::kString) {
      if (entry.count > in.left() / sizeof(uint64_t)) {
        throw Error(name_, key, "array of " + std::to_string(entry.count) + " strings",
                    "at most " + std::to_string(in.left() / sizeof(uint64_t)) + " in the " +
                        bytes_text(in.left()) + " that are left of the file");
      }
      for (uint64_t k = 0; k < entry.count; ++k) in.string(key);
    } else {
      uint64_t size;
      if (!multiply(entry.count, scalar_bytes(entry.element), &size)) {
        throw Error(name_, key, describe(entry), "a size below 2^64 bytes");
      }
      in.take(size, key);
    }
    if (entry.element == GgufValueType::kBool) {
      for (uint64_t k = 0; k < entry.count; ++k) {
        const auto value = static_cast<unsigned>(entry.value[k]);
        if (value > 1) throw Error(name_, key, "bool with the value " + std::to_string(value), "0 or 1");
      }
    }
    entries_.push_back(entry);
  }

  entry_order_ = sorted_order(entries_, entry_key);
  for (size_t i = 1; i < entry_order_.size(); ++i) {
    const std::string_view key = entries_[entry_order_[i]].key;
    if (key == entries_[entry_order_[i - 1]].key)
      throw Error(name_, quoted(key), "the key twice", "each key once");
  }

  if (const GgufEntry* entry = find("general.alignment")) {
    if (entry->type != GgufValueType::kU32) fail_type(*entry, "u32");
    alignment_ = load<uint32_t>(entry->value);
    if (!std::has_single_bit(alignment_) || alignment_ < 8) {
      throw Error(name_, "\"general.alignment\"", std::to_string(alignment_), "a power of two, at least 8");
    }
  }
}

void GgufFile::read_tensors(Reader& in, uint64_t count) {
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor{};
    const std::string nth = "name of tensor " + std::to_string(i);
    tensor.name = in.string(nth);
    if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes) {
      throw Error(name_, nth, bytes_text(tensor.name.size()), "1 to 64 bytes");
    }
    const std::string name = "tensor " + quoted(tensor.name);

    const uint32_t n_dims = in.number<uint32_t>(name + " (number of dimensions)");
    if (n_dims < 1 || n_dims > 4) throw Error(name_, name, std::to_string(n_dims) + " dimensions", "1 to 4");
    tensor.n_dims = static_cast<int>(n_dims);
    tensor.dims = {1, 1, 1, 1};
    uint64_t elements = 1;
    for (uint32_t d = 0; d < n_dims; ++d) {
      const uint64_t dim = in.number<uint64_t>(name + " (dimension)");
      if (dim == 0 || dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw Error(name_, name, "dimension " + std::to_string(d) + " = " + std::to_string(dim),
                    "1 to 2^63 - 1");
      }
      tensor.dims[d] = static_cast<int64_t>(dim);
      if (!multiply(elements, dim, &elements) ||
          elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw Error(name_, name, "a product of dimensions past 2^63 - 1", "a tensor that fits into the file");
      }
    }

    const uint32_t type_id = in.number<uint32_t>(name + " (type)");
    const GgmlTypeInfo* type = find_type(type_id);
    if (type == nullptr) throw Error(name_, name, "type " + std::to_string(type_id), type_list());
    tensor.type = type->type;
    if (tensor.dims[0] % type->block_elements != 0) {
      throw Error(name_, name, "dimension 0 = " + std::to_string(tensor.dims[0]) + " in type " + type->name,
                  "a multiple of " + std::to_string(type->block_elements));
    }
    if (!multiply(elements / static_cast<uint64_t>(type->block_elements),
                  static_cast<uint64_t>(type->block_bytes), &tensor.bytes)) {
      throw Error(name_, name, "a size past 2^64 bytes", "a tensor that fits into the file");
    }
    const uint64_t offset = in.number<uint64_t>(name + " (offset)");
    if (offset % alignment_ != 0) {
      throw Error(name_, name, "offset " + std::to_string(offset),
                  "a multiple of " + std::to_string(alignment_));
    }
    offsets.push_back(offset);
    tensors_.push_back(tensor);
  }

  tensor_order_ = sorted_order(tensors_, tensor_name);
  for (size_t i = 1; i < tensor_order_.size(); ++i) {
    const std::string_view name = tensors_[tensor_order_[i]].name;
    if (name == tensors_[tensor_order_[i - 1]].name) {
      throw Error(name_, "tensor " + quoted(name), "the name twice", "each name once");
    }
  }
  if (tensors_.empty()) return;

  // The data section begins at the next multiple of the alignment. Each tensor ends with padding up to the
  // alignment, the last one too: a file without it was cut.
  uint64_t data_begin;
  if (!align_up(in.at, alignment_, &data_begin) || data_begin > bytes_.size()) {
    throw Error(
        name_, "tensor data", "a file that ends at " + std::to_string(bytes_.size()),
        "data from the next multiple of " + std::to_string(alignment_) + " after " + std::to_string(in.at));
  }
  const uint64_t data_bytes = bytes_.size() - data_begin;
  std::vector<std::pair<uint64_t, size_t>> by_offset;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    uint64_t padded;
    if (!align_up(tensor.bytes, alignment_, &padded) || offsets[i] > data_bytes ||
        padded > data_bytes - offsets[i]) {
      throw Error(name_, "tensor " + quoted(tensor.name),
                  bytes_text(tensor.bytes) + " at offset " + std::to_string(offsets[i]) +
                      " of the data, padded to " + std::to_string(alignment_),
                  "to end within the " + bytes_text(data_bytes) + " of data in the file");
    }
    tensor.data = bytes_.data() + data_begin + offsets[i];
    by_offset.emplace_back(offsets[i], i);
  }
  std::sort(by_offset.begin(), by_offset.end());
  for (size_t k = 1; k < by_offset.size(); ++k) {
    const auto [offset, i] = by_offset[k - 1];
    if (tensors_[i].bytes > by_offset[k].first - offset) {
      throw Error(name_, "tensor " + quoted(tensors_[i].name),
                  bytes_text(tensors_[i].bytes) + " at offset " + std::to_string(offset),
                  "to end before tensor " + quoted(tensors_[by_offset[k].second].name) +
                      " begins at offset " + std::to_string(by_offset[k].first));
    }
  }
}

const GgufEntry* GgufFile::find(std::string_view key) const noexcept {
  return find_sorted(entries_, entry_order_, key, entry_key);
}

void GgufFile::fail_type(const GgufEntry& entry, const std::string& expected) const {
  throw Error(name_, quoted(entry.key), describe(entry), expected);
}

void GgufFile::fail_missing(std::string_view key, const std::string& expected) const {
  throw Error(name_, quoted(key), "no such key in the file", expected);
}

std::optional<uint64_t> GgufFile::find_u64(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  const auto value = integer(*entry);
  if (!value) fail_type(*entry, "an integer");
  if (value->first) throw Error(name_, quoted(key), "-" + std::to_string(value->second), "0 or more");
  return value->second;
}

std::optional<float> GgufFile::find_f32(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type == GgufValueType::kF32) return load<float>(entry->value);
  if (entry->type != GgufValueType::kF64) fail_type(*entry, "f32");
  const double value = load<double>(entry->value);
  if (std::isfinite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
    throw Error(name_, quoted(key), std::to_string(value), "a value in the range of f32");
  }
  return static_cast<float>(value);
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != GgufValueType::kBool) fail_type(*entry, "bool");
  return load<uint8_t>(entry->value) != 0;
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != GgufValueType::kString) fail_type(*entry, "string");
  return reader_at(entry->value).string(quoted(key));
}

uint64_t GgufFile::get_u64(std::string_view key, uint64_t min, uint64_t max) const {
  const auto value = find_u64(key);
  if (!value) fail_missing(key, "an integer");
  if (*value < min || *value > max) {
    throw Error(name_, quoted(key), std::to_string(*value),
                "a value from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return *value;
}

float GgufFile::get_f32(std::string_view key) const {
  const auto value = find_f32(key);
  if (!value) fail_missing(key, "f32");
  return *value;
}

bool GgufFile::get_bool(std::string_view key) const {
  const auto value = find_bool(key);
  if (!value) fail_missing(key, "bool");
  return *value;
}

std::string_view GgufFile::get_string(std::string_view key) const {
  const auto value = find_string(key);
  if (!value) fail_missing(key, "string");
  return *value;
}

const GgufEntry& GgufFile::array(std::string_view key, const std::string& expected) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) fail_missing(key, expected);
  if (entry->type != GgufValueType::kArray) fail_type(*entry, expected);
  return *entry;
}

std::vector<std::string_view> GgufFile::get_strings(std::string_view key) const {
  const GgufEntry& entry = array(key, "array of string");
  if (entry.element != GgufValueType::kString) fail_type(entry, "array of string");
  std::vector<std::string_view> values;
  values.reserve(static_cast<size_t>(entry.count));
  Reader in = reader_at(entry.value);
  const std::string what = quoted(key);
  for (uint64_t i = 0; i < entry.count; ++i) values.push_back(in.string(what));
  return values;
}

std::vector<float> GgufFile::get_f32s(std::string_view key) const {
  const GgufEntry& entry = array(key, "array of f32");
  if (entry.element != GgufValueType::kF32) fail_type(entry, "array of f32");
  std::vector<float> values(static_cast<size_t>(entry.count));
  if (!values.empty()) std::memcpy(values.data(), entry.value, values.size() * sizeof(float));
  return values;
}

std::vector<int32_t> GgufFile::get_i32s(std::string_view key) const {
  const GgufEntry& entry = array(key, "array of i32");
  if (entry.element != GgufValueType::kI32 && entry.element != GgufValueType::kU32)
    fail_type(entry, "array of i32");
  std::vector<int32_t> values(static_cast<size_t>(entry.count));
  if (!values.empty()) std::memcpy(values.data(), entry.value, values.size() * sizeof(int32_t));
  if (entry.element == GgufValueType::kU32) {
    for (const int32_t value : values) {
      if (value < 0) {
        throw Error(name_, quoted(key), "element " + std::to_string(static_cast<uint32_t>(value)),
                    "at most 2^31 - 1");
      }
    }
  }
  return values;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const noexcept {
  return find_sorted(tensors_, tensor_order_, name, tensor_name);
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* found = find_tensor(name);
  if (found == nullptr)
    throw Error(name_, "tensor " + quoted(name), "no such tensor in the file", "the tensor");
  return *found;
}

void GgufFile::check_unchanged() const { map_.check_unchanged(); }

}  // namespace musaic::llm
