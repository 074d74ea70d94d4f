#include "ops/ggml_embedding_rows/ggml_embedding_rows.h"

#include <string>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/ggml_embedding_rows/args.h"

namespace musaic {

void ggml_embedding_rows(const Tensor& out, const Tensor& weight, const Tensor& ids, std::int64_t type,
                         Stream stream) {
  constexpr const char* kOp = "ggml_embedding_rows";
  const GgmlLayout& layout = checked_ggml_layout(kOp, type);
  Check check(kOp);
  Dim num_tokens("num_tokens"), hidden_size("hidden_size");
  check.tensor("ids", ids).dtype({kInt32, kInt64}).shape({&num_tokens}).contiguous().aligned();
  check.tensor("out", out)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_tokens, &hidden_size})
      .last_dim_contiguous()
      .aligned();
  check.tensor("weight", weight).dtype({kUInt8}).contiguous();
  const std::int64_t row_bytes = checked_ggml_bytes(kOp, layout, 1, hidden_size);
  if (row_bytes != 0 && weight.numel() % row_bytes != 0)
    check.fail("weight", std::to_string(weight.numel()) + " bytes",
               "whole rows of " + std::to_string(row_bytes) + " bytes (hidden_size=" +
                   std::to_string(hidden_size.value()) + " of " + layout.name + ", from out)");
  check_plain_alignment(check, layout, weight);
  check.no_overlap("out", out, "weight", weight, false);
  check.no_overlap("out", out, "ids", ids, false);

  static constexpr FaultSite kIds{kOp, "ids"};
  GgmlEmbeddingRowsArgs args{};
  args.out = rows_of(kOp, "out", out);
  args.weight = weight.data_as<const std::uint8_t>();
  args.ids = ids.data();
  args.wide_ids = ids.dtype() == kInt64;
  args.layout = layout;
  args.dtype = float_kind(out.dtype());
  args.num_tokens = num_tokens;
  args.hidden_size = hidden_size;
  args.row_bytes = row_bytes;
  args.vocab_size = row_bytes > 0 ? weight.numel() / row_bytes : 0;
  const Backend backend = enter(check.device());
  args.faults = {backend.faults, &kIds};
  if (args.num_tokens > 0 && args.hidden_size > 0)
    launch(backend, &OpTable::ggml_embedding_rows, check.op(), args, stream);
}

}  // namespace musaic
