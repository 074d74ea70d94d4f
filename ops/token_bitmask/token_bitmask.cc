#include "ops/token_bitmask/token_bitmask.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/token_bitmask/args.h"

namespace musaic {

void apply_token_bitmask_inplace(const Tensor& logits, const Tensor& bitmask, const Tensor& indices,
                                 Stream stream) {
  static constexpr FaultSite kIndices{"apply_token_bitmask_inplace", "indices"};
  Check check(kIndices.op);
  check.tensor("logits", logits)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(1, 2)
      .last_dim_contiguous()
      .aligned();
  check.tensor("bitmask", bitmask).dtype({kInt32}).rank(1, 2).last_dim_contiguous().aligned();
  check.no_overlap("logits", logits, "bitmask", bitmask, false);
  const std::int64_t rows = logits.ndim() == 2 ? logits.size(0) : 1,
                     mask_rows = bitmask.ndim() == 2 ? bitmask.size(0) : 1,
                     vocab = logits.size(logits.ndim() - 1), words = bitmask.size(bitmask.ndim() - 1);
  check.that(words <= (vocab + 31) / 32, "bitmask", std::to_string(words) + " words a row",
             "at most " + std::to_string((vocab + 31) / 32) + " for " + std::to_string(vocab) + " logits");
  TokenBitmaskArgs args{};
  args.num_entries = rows;
  if (indices) {
    Dim n("num_indices");
    check.tensor("indices", indices).dtype({kInt32, kInt64}).shape({&n}).aligned();
    check.no_overlap("logits", logits, "indices", indices, false);
    args.indices = vector_of(indices);
    args.num_entries = n;
  } else {
    check.that(mask_rows >= rows, "bitmask", std::to_string(mask_rows) + " rows",
               "at least the " + std::to_string(rows) + " of logits without indices");
  }
  args.logits = logits.data();
  args.logits_stride = logits.ndim() == 2 ? logits.stride(0) : 0;
  args.mask = bitmask.data_as<const std::int32_t>();
  args.mask_stride = bitmask.ndim() == 2 ? bitmask.stride(0) : 0;
  args.dtype = float_kind(logits.dtype());
  args.num_rows = rows < mask_rows ? rows : mask_rows;
  args.vocab_size = vocab;
  args.num_words = words;
  const Backend backend = enter(check.device());
  args.bad_index = {backend.faults, &kIndices};
  if (args.num_entries > 0 && vocab > 0)
    launch(backend, &OpTable::apply_token_bitmask_inplace, check.op(), args, stream);
}

}  // namespace musaic
