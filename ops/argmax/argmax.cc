#include "ops/argmax/argmax.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/argmax/args.h"

namespace musaic {

void argmax(const Tensor& out, const Tensor& input, Stream stream) {
  Check check("argmax");
  Dim batch_size("batch_size"), vocab_size("vocab_size");
  check.tensor("input", input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&batch_size, &vocab_size})
      .last_dim_contiguous()
      .aligned();
  check.tensor("out", out).dtype({kInt32, kInt64}).shape({&batch_size}).aligned();
  check.no_overlap("out", out, "input", input, false);
  check.that(vocab_size > 0 || batch_size == 0, "input", "rows of 0 entries", "at least one entry a row");
  check.that(out.dtype() == kInt64 || vocab_size <= 0x7fffffff, "out", "dtype int32",
             "int64 for rows of " + std::to_string(vocab_size.value()) + " entries");

  ArgmaxArgs args{};
  args.out = vector_of(out);
  args.input = rows_of("argmax", "input", input);
  args.dtype = float_kind(input.dtype());
  args.num_rows = batch_size;
  args.size = vocab_size;
  const Backend backend = enter(check.device());
  if (args.num_rows > 0) launch(backend, &OpTable::argmax, check.op(), args, stream);
}

}  // namespace musaic
