// Keys and values of the tokens seen so far, in pages.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/config.h"
#include "musaic/tensor.h"

namespace musaic::llm {

/// A pool of pages, shared by rows. A row reserves its pages when it opens and gives them back when it
/// closes; between the two it appends positions, and every append is checked against the reservation, here
/// alone.
class KvCache {
 public:
  static constexpr int64_t kPageSize = 16;  ///< tokens

  static int64_t pages_for(int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

  /// Room for `num_rows` rows open at a time, of at most `row_pages` pages each and `num_pages` together.
  KvCache(const Config& config, int64_t num_rows, int64_t row_pages, int64_t num_pages, Device device = {});

  /// Reserves pages for `capacity` tokens. Throws musaic::Error when the row is open already, the capacity is
  /// past row_pages, or pages are short.
  void open(int64_t row, int64_t capacity);
  bool can_open(int64_t capacity) const { return pages_for(capacity) <= static_cast<int64_t>(free_.size()); }
  /// Gives the row's pages back; closing a closed row does nothing.
  void close(int64_t row);

  /// Tokens in the row.
  int64_t length(int64_t row) const { return rows_.at(static_cast<size_t>(row)).length; }
  int64_t capacity(int64_t row) const { return rows_.at(static_cast<size_t>(row)).capacity; }

  /// Adds `count` positions to the row and writes the slot of each (page * kPageSize + offset) to `slots`.
  /// Returns the first position. Throws musaic::Error, with nothing changed, when the row's capacity is less.
  int64_t append(int64_t row, int64_t count, int64_t* slots);

  /// float32 [num_pages, kPageSize, num_kv_heads, head_dim] of one layer, on the device.
  Tensor keys(int64_t layer) const { return keys_.view()[layer]; }
  Tensor values(int64_t layer) const { return values_.view()[layer]; }
  /// The row's pages in order; row_pages entries, those past its reservation are 0.
  const int32_t* pages(int64_t row) const { return table_.data() + row * row_pages_; }
  int64_t row_pages() const { return row_pages_; }
  int64_t bytes() const { return keys_.size_in_bytes() + values_.size_in_bytes(); }

 private:
  struct Row {
    int64_t length = 0;
    int64_t capacity = 0;  // 0: closed
  };

  OwnedTensor keys_, values_;  // [num_layers, num_pages, kPageSize, num_kv_heads, head_dim]
  int64_t row_pages_;
  std::vector<Row> rows_;
  std::vector<int32_t> table_;  // [num_rows, row_pages]
  std::vector<int32_t> free_;
};

}  // namespace musaic::llm
