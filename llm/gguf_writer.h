// Writes GGUF files in memory: right ones and, where a test wants them, wrong ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "llm/gguf.h"

namespace musaic::llm {

/// Collects metadata and tensors and lays them out as a GGUF file. Nothing is checked: the counts, types and
/// offsets that the tests give are what is written.
class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3) : version_(version) {}

  /// A metadata value: integers, float, double, bool, text, and vectors of these.
  template <typename T>
  GgufWriter& add(std::string_view key, const T& value) {
    std::string bytes;
    const uint32_t type = put_value(bytes, value);
    return add_raw(key, type, bytes);
  }

  /// A metadata entry from its type number and the bytes of its value.
  GgufWriter& add_raw(std::string_view key, uint32_t type, std::string_view value) {
    put_string(entries_, key);
    put(entries_, type);
    entries_ += value;
    ++entry_count_;
    return *this;
  }

  /// Sets general.alignment and lays the tensors out by it.
  GgufWriter& set_alignment(uint32_t alignment) {
    alignment_ = alignment;
    return add("general.alignment", alignment);
  }

  /// A tensor: dims innermost first, data as the file stores it.
  GgufWriter& add_tensor(std::string_view name, GgmlType type, const std::vector<int64_t>& dims,
                         std::span<const std::byte> data) {
    const uint64_t offset = data_.size();
    data_.append(reinterpret_cast<const char*>(data.data()), data.size());
    pad(data_);
    return add_raw_tensor(name, static_cast<uint32_t>(type), dims, offset);
  }

  /// The same from a vector of numbers.
  template <typename T>
  GgufWriter& add_tensor(std::string_view name, GgmlType type, const std::vector<int64_t>& dims,
                         const std::vector<T>& data) {
    return add_tensor(name, type, dims, std::as_bytes(std::span(data)));
  }

  /// A tensor's description alone, with any numbers in it.
  GgufWriter& add_raw_tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& dims,
                             uint64_t offset) {
    put_string(tensors_, name);
    put(tensors_, static_cast<uint32_t>(dims.size()));
    for (const int64_t dim : dims) put(tensors_, static_cast<uint64_t>(dim));
    put(tensors_, type);
    put(tensors_, offset);
    ++tensor_count_;
    return *this;
  }

  /// Bytes of data that no tensor describes; add_raw_tensor can point at them.
  GgufWriter& add_data(uint64_t bytes) {
    data_.append(bytes, '\x5A');
    return *this;
  }

  /// Counts to write in place of the right ones.
  GgufWriter& set_counts(uint64_t tensors, uint64_t entries) {
    forced_tensors_ = tensors;
    forced_entries_ = entries;
    forced_ = true;
    return *this;
  }

  std::vector<std::byte> bytes() const {
    std::string out = "GGUF";
    put(out, version_);
    put(out, forced_ ? forced_tensors_ : tensor_count_);
    put(out, forced_ ? forced_entries_ : entry_count_);
    out += entries_;
    out += tensors_;
    if (tensor_count_ > 0 || !data_.empty()) pad(out);
    out += data_;
    const auto all = std::as_bytes(std::span(out));
    return {all.begin(), all.end()};
  }

  void write(const std::string& path) const {
    const std::vector<std::byte> all = bytes();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
  }

  template <typename T>
  static void put(std::string& out, T value) {
    static_assert(std::is_arithmetic_v<T>);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  static void put_string(std::string& out, std::string_view text) {
    put(out, static_cast<uint64_t>(text.size()));
    out += text;
  }

 private:
  template <typename T>
  static uint32_t put_value(std::string& out, const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      put_string(out, value);
      return static_cast<uint32_t>(GgufValueType::kString);
    } else if constexpr (std::is_same_v<T, bool>) {
      put(out, static_cast<uint8_t>(value));
      return static_cast<uint32_t>(GgufValueType::kBool);
    } else if constexpr (std::is_floating_point_v<T>) {
      put(out, value);
      return static_cast<uint32_t>(sizeof(T) == 4 ? GgufValueType::kF32 : GgufValueType::kF64);
    } else if constexpr (std::is_integral_v<T>) {
      put(out, value);
      constexpr GgufValueType kUnsigned[] = {GgufValueType::kU8, GgufValueType::kU16, GgufValueType::kU32,
                                             GgufValueType::kU64};
      constexpr GgufValueType kSigned[] = {GgufValueType::kI8, GgufValueType::kI16, GgufValueType::kI32,
                                           GgufValueType::kI64};
      constexpr int kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return static_cast<uint32_t>(std::is_signed_v<T> ? kSigned[kLog2] : kUnsigned[kLog2]);
    } else {
      std::string elements;
      uint32_t type = put_value(elements, typename T::value_type());
      elements.clear();
      for (const auto& element : value)
        type = put_value(elements, static_cast<typename T::value_type>(element));
      put(out, type);
      put(out, static_cast<uint64_t>(value.size()));
      out += elements;
      return static_cast<uint32_t>(GgufValueType::kArray);
    }
  }

  void pad(std::string& out) const {
    out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
  }

  uint32_t version_;
  uint32_t alignment_ = 32;
  std::string entries_, tensors_, data_;
  uint64_t entry_count_ = 0, tensor_count_ = 0;
  bool forced_ = false;
  uint64_t forced_tensors_ = 0, forced_entries_ = 0;
};

}  // namespace musaic::llm
