#include "backends/cpu/launch.h"
#include "ops/moe_routing/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

/// The n <= kMost largest of the places that it was given, in order.
class Largest {
 public:
  static constexpr std::int64_t kMost = 64;
  explicit Largest(std::int64_t n) : capacity_(n) { of_[0] = 0; }
  MUSAIC_FN std::int64_t count() const { return count_; }
  MUSAIC_FN std::uint64_t operator[](std::int64_t i) const { return of_[i]; }
  /// A place must be above this to be taken.
  MUSAIC_FN std::uint64_t least() const { return count_ < capacity_ ? 0 : of_[count_ - 1]; }
  MUSAIC_FN void take(std::uint64_t place) {
    if (place <= least()) return;
    std::int64_t i = count_ < capacity_ ? count_++ : count_ - 1;
    for (; i > 0 && of_[i - 1] < place; --i) of_[i] = of_[i - 1];
    of_[i] = place;
  }

 private:
  std::uint64_t of_[kMost];
  std::int64_t capacity_, count_ = 0;
};

class Router {
 public:
  Router(const MoeRoutingArgs& args, RowGroup& group) : a(args), group_(group) {}

  void route(std::int64_t row) {
    row_ = row;
    logits_ = logits_of(a, row);
    bool has_nan = false;
    if (a.num_experts <= kCached)
      group_.each(a.num_experts, [&](auto c) { c.store(values_, values_of(a, logits_, c)); });
    each(0, a.num_experts, [&](std::int64_t, F32x8 z, int count) {
      for (int i = 0; i < count; ++i) has_nan |= !(z[i] == z[i]);
    });

    const std::uint64_t least_group = a.num_groups > 1 ? least_kept_group() : 0;
    const std::int64_t k = a.num_routed;
    float* weights = row_of<float>(a.weights, row);
    float max = 0.0f, sum = 0.0f;
    std::uint64_t bound = ~std::uint64_t{0};
    for (std::int64_t done = 0; done < k;) {
      Largest best(k - done < Largest::kMost ? k - done : Largest::kMost);
      if (least_group == 0) {
        collect(best, 0, a.num_experts, bound);
      } else {
        for (std::int64_t g = 0; g < a.num_groups; ++g)
          if (group_place(g) >= least_group) collect(best, g * group_size(), (g + 1) * group_size(), bound);
      }
      if (done == 0) max = value_of_key(key_at(best[0]));
      for (std::int64_t i = 0; i < best.count(); ++i) {
        const float raw = raw_weight(a, logits_, best[i], max);
        sum += raw;
        weights[done + i] = raw;
        write_id(a, row, done + i, index_at(best[i]));
      }
      done += best.count();
      bound = best[best.count() - 1];
    }
    float all_experts = 1.0f;
    if (a.softmax && !a.renormalize && !has_nan)
      all_experts = group_.sum(a.num_experts, [&](auto c, F32x8 acc) {
        return acc + relative(a.num_experts <= kCached ? c.load(values_) : values_of(a, logits_, c), max);
      });
    const Weighing weigh = weighing(a, has_nan, all_experts, sum);
    for (std::int64_t j = 0; j < k; ++j) weights[j] = weigh(weights[j]);
    for (std::int64_t i = 0; i < a.num_shared; ++i) write_shared(a, row, i, has_nan);
  }

 private:
  static constexpr std::int64_t kCached = 2048;

  std::int64_t group_size() const { return a.num_experts / a.num_groups; }

  /// f(first expert, eight values, how many of them exist) over [begin, end).
  template <class F>
  MUSAIC_FN void each(std::int64_t begin, std::int64_t end, F f) const {
    for (std::int64_t i = begin; i < end; i += 8) {
      const int count = end - i < 8 ? static_cast<int>(end - i) : 8;
      if (count == 8)
        f(i, values(FullChunk{i}), count);
      else
        f(i, values(TailChunk{i, count}), count);
    }
  }
  template <class Chunk>
  MUSAIC_FN F32x8 values(Chunk c) const {
    return a.num_experts <= kCached ? c.load(values_) : values_of(a, logits_, c);
  }

  MUSAIC_FN void collect(Largest& best, std::int64_t begin, std::int64_t end, std::uint64_t bound) const {
    each(begin, end, [&](std::int64_t first, F32x8 z, int count) {
      // Indices rise, so that of equal values the one that is there stays.
      const std::uint64_t least = best.least();
      if (key_at(least) > kNanKey && !any(z > all<F32x8>(value_of_key(key_at(least))))) return;
      for (int i = 0; i < count; ++i) {
        const std::uint64_t place = place_of(key_of(z[i]), first + i);
        if (place < bound) best.take(place);
      }
    });
  }

  std::uint64_t group_place(std::int64_t g) const {
    LargestTwo two = no_values();
    each(g * group_size(), (g + 1) * group_size(), [&](std::int64_t, F32x8 z, int count) {
      if (count == 8 && !any(z > all<F32x8>(two.second))) return;
      for (int i = 0; i < count; ++i) two.take(z[i]);
    });
    return place_of(two.key(group_size()), g);
  }
  std::uint64_t least_kept_group() const {
    std::uint64_t bound = ~std::uint64_t{0};
    for (std::int64_t done = 0; done < a.kept_groups;) {
      const std::int64_t left = a.kept_groups - done;
      Largest best(left < Largest::kMost ? left : Largest::kMost);
      for (std::int64_t g = 0; g < a.num_groups; ++g) {
        const std::uint64_t place = group_place(g);
        if (place < bound) best.take(place);
      }
      done += best.count();
      bound = best[best.count() - 1];
    }
    return bound;
  }

  const MoeRoutingArgs& a;
  RowGroup& group_;
  std::int64_t row_ = 0;
  const void* logits_ = nullptr;
  float values_[kCached];
};

void route_rows(const MoeRoutingArgs& a) {
  constexpr std::int64_t kExpertsPerThread = 4096;
  auto body = [&](std::int64_t begin, std::int64_t end) {
    RowGroup group;
    Router router(a, group);
    for (std::int64_t r = begin; r < end; ++r) router.route(r);
  };
  cpu::parallel(a.num_tokens, 1 + kExpertsPerThread / (a.num_experts + 1), body);
}

}  // namespace

void topk_softmax(const MoeRoutingArgs& a, Stream) { route_rows(a); }
void topk_sigmoid(const MoeRoutingArgs& a, Stream) { route_rows(a); }
void moe_fused_gate(const MoeRoutingArgs& a, Stream) { route_rows(a); }
void kimi_k2_moe_fused_gate(const MoeRoutingArgs& a, Stream) { route_rows(a); }

}  // namespace musaic::MUSAIC_TARGET
