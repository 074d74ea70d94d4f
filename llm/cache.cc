#include "llm/cache.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>

#include "musaic/error.h"

namespace musaic::llm {
namespace {

/// float32 [num_layers, num_pages, kPageSize, num_kv_heads, head_dim]; out of memory where 64 bits do not
/// hold its size.
OwnedTensor allocate(const Config& c, int64_t num_pages, Device device) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(c.cache_bytes_per_token(), num_pages, &bytes) ||
      __builtin_mul_overflow(bytes, KvCache::kPageSize, &bytes))
    throw std::bad_alloc();
  return OwnedTensor(kFloat32, {c.num_layers, num_pages, KvCache::kPageSize, c.num_kv_heads, c.head_dim},
                     device);
}

}  // namespace

KvCache::KvCache(const Config& config, int64_t num_rows, int64_t row_pages, int64_t num_pages, Device device)
    : keys_(allocate(config, num_pages, device)),
      values_(allocate(config, num_pages, device)),
      row_pages_(row_pages),
      rows_(static_cast<size_t>(num_rows)),
      table_(static_cast<size_t>(num_rows * row_pages)) {
  free_.reserve(static_cast<size_t>(num_pages));
  for (int64_t page = num_pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
}

void KvCache::open(int64_t row, int64_t capacity) {
  Row& r = rows_.at(static_cast<size_t>(row));
  const int64_t pages = pages_for(capacity);
  if (r.capacity != 0 || capacity < 1 || pages > row_pages_ || !can_open(capacity))
    throw Error("cache", "row " + std::to_string(row), std::to_string(capacity) + " tokens",
                "a closed row, and 1 to " +
                    std::to_string(std::min(row_pages_, static_cast<int64_t>(free_.size())) * kPageSize) +
                    " tokens");
  r = {0, capacity};
  int32_t* table = table_.data() + row * row_pages_;
  for (int64_t i = 0; i < pages; ++i) {
    table[i] = free_.back();
    free_.pop_back();
  }
}

void KvCache::close(int64_t row) {
  Row& r = rows_.at(static_cast<size_t>(row));
  int32_t* table = table_.data() + row * row_pages_;
  for (int64_t i = pages_for(r.capacity); i-- > 0;) {
    free_.push_back(table[i]);
    table[i] = 0;
  }
  r = {};
}

int64_t KvCache::append(int64_t row, int64_t count, int64_t* slots) {
  Row& r = rows_.at(static_cast<size_t>(row));
  if (count < 0 || count > r.capacity - r.length)
    throw Error("cache", "row " + std::to_string(row), std::to_string(count) + " more tokens",
                "at most " + std::to_string(r.capacity - r.length));
  const int64_t first = r.length;
  const int32_t* table = pages(row);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = first + i;
    slots[i] = int64_t{table[position / kPageSize]} * kPageSize + position % kPageSize;
  }
  r.length += count;
  return first;
}

}  // namespace musaic::llm
