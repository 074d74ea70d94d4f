// What a request's queries see, and how two parts of a softmax become one: for the backends' own loops.
#pragma once

#include "device/device.h"
#include "ops/paged_attention/args.h"

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN float minus_infinity() { return from_bits(0xff800000u); }
MUSAIC_FN std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
MUSAIC_FN std::int64_t most(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

enum RequestState : unsigned char {
  kSkip,   // owns no rows, or nobody knows which
  kReady,  // checked
  kBad,    // its rows get 0 and -infinity
};

/// Positions [low, high).
struct Span {
  std::int64_t low, high;
  MUSAIC_FN bool empty() const { return low >= high; }
};

MUSAIC_FN Span intersection(Span a, Span b) { return {most(a.low, b.low), least(a.high, b.high)}; }

struct Request {
  std::int64_t index, first_token, num_queries, length;

  MUSAIC_FN Span visible(const PagedAttentionArgs& a, std::int64_t query) const {
    const std::int64_t position = length - num_queries + query;
    if (position < 0) return {0, 0};
    return {a.window > 0 ? most(0, position - a.window + 1) : 0, a.causal ? position + 1 : length};
  }
  MUSAIC_FN bool has_valid_tokens(const PagedAttentionArgs& a) const {
    return first_token >= 0 && num_queries >= 0 && first_token + num_queries <= a.num_tokens;
  }
  MUSAIC_FN bool has_valid_length(const PagedAttentionArgs& a) const {
    return length >= 0 && length <= a.max_pages * a.page_size;
  }
  /// Pages of the table that one of the queries sees.
  MUSAIC_FN Span pages(const PagedAttentionArgs& a) const {
    const Span seen{visible(a, most(0, num_queries - length)).low, length};
    if (seen.empty()) return {0, 0};
    return {seen.low / a.page_size, (seen.high - 1) / a.page_size + 1};
  }
  MUSAIC_FN std::int64_t page(const PagedAttentionArgs& a, std::int64_t p) const {
    return a.page_table[index * a.table_request_stride + p * a.table_page_stride];
  }
};

MUSAIC_FN Request request_at(const PagedAttentionArgs& a, std::int64_t r) {
  if (a.query_starts == nullptr) return {r, r, 1, a.seq_lens[r]};
  const std::int64_t begin = a.query_starts[r], end = a.query_starts[r + 1];
  return {r, begin, end - begin, a.seq_lens[r]};
}

/// A score from the sum of its products.
MUSAIC_FN float capped(const PagedAttentionArgs& a, float scaled) {
  return a.soft_cap > 0 ? a.soft_cap * tanh(div(scaled, a.soft_cap)) : scaled;
}

/// How a part joins the total before it, by their maxima.
struct alignas(16) Merge {
  enum Kind { kNothing, kReplace, kAdd } kind;
  float maximum, keep, add;  // of the total and the part

  MUSAIC_FN float operator()(float total, float part) const {
    return kind == kAdd ? fma(total, keep, part * add) : kind == kReplace ? part : total;
  }
};

MUSAIC_FN Merge merge_of(float total_maximum, float part_maximum) {
  if (part_maximum == minus_infinity()) return {Merge::kNothing, total_maximum, 1.0f, 0.0f};
  if (total_maximum == minus_infinity()) return {Merge::kReplace, part_maximum, 0.0f, 1.0f};
  const float m = select(total_maximum < part_maximum, part_maximum, total_maximum);
  return {Merge::kAdd, m, exp(total_maximum - m), exp(part_maximum - m)};
}

/// ln(sum of e^x) of a softmax that saw something.
MUSAIC_FN float log_sum(float maximum, float weight) {
  return maximum == minus_infinity() ? minus_infinity() : maximum + log(weight);
}

}  // namespace musaic::MUSAIC_TARGET
