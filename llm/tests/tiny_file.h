// Tiny models in memory for tests, and damaged ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "llm/gguf.h"
#include "llm/tiny.h"

namespace musaic::llm {

/// The bytes of a tiny model, with edits in place. Every edit throws if it finds nothing to change.
class TinyFile {
 public:
  explicit TinyFile(const TinyModel& tiny = {}) : bytes_(tiny_model_bytes(tiny)) {}

  /// Gives a key or a tensor another name of the same length.
  TinyFile& rename(std::string_view from, std::string_view to) {
    if (from.size() != to.size()) throw std::logic_error("names of two lengths");
    std::memcpy(find(from), to.data(), to.size());
    return *this;
  }
  /// Changes the value of a u32 or f32 key.
  template <typename T>
  TinyFile& set(std::string_view key, T value) {
    static_assert(sizeof value == 4);
    std::memcpy(find(key) + key.size() + 4, &value, 4);
    return *this;
  }
  /// Changes the value of a string key to another of the same length.
  TinyFile& set_text(std::string_view key, std::string_view value) {
    std::memcpy(find(key) + key.size() + 4 + 8, value.data(), value.size());
    return *this;
  }
  /// Changes the size of dimension `dim`, or the type, of a matrix.
  TinyFile& set_dim(std::string_view tensor, int dim, int64_t size) {
    std::memcpy(find(tensor) + tensor.size() + 4 + 8 * dim, &size, 8);
    return *this;
  }
  TinyFile& set_type(std::string_view tensor, GgmlType type) {
    std::memcpy(find(tensor) + tensor.size() + 4 + 16, &type, 4);
    return *this;
  }

  GgufFile open() const { return GgufFile::parse(bytes_, "tiny.gguf"); }

 private:
  std::byte* find(std::string_view name) {
    std::string with_length(8, '\0');
    const uint64_t size = name.size();
    std::memcpy(with_length.data(), &size, 8);
    with_length += name;
    const auto* begin = reinterpret_cast<const std::byte*>(with_length.data());
    const auto at = std::search(bytes_.begin(), bytes_.end(), begin, begin + with_length.size());
    if (at == bytes_.end()) throw std::logic_error("no " + std::string(name));
    return &*at + 8;
  }

  std::vector<std::byte> bytes_;
};

}  // namespace musaic::llm
