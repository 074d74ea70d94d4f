#include "ops/softmax/softmax.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/softmax/args.h"

namespace musaic {

void softmax(const Tensor& out, const Tensor& logits, const Tensor& temperature, double temperature_scalar,
             Stream stream) {
  constexpr std::int64_t kMostEntries = std::int64_t{1} << 22;  // so that a sum of weights fits 62 bits
  Check check("softmax");
  Dim batch_size("batch_size"), vocab_size("vocab_size");
  check.tensor("logits", logits)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&batch_size, &vocab_size})
      .last_dim_contiguous()
      .aligned();
  check.that(vocab_size <= kMostEntries, "logits",
             "rows of " + std::to_string(vocab_size.value()) + " entries",
             "at most " + std::to_string(kMostEntries));
  check.tensor("out", out)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .same_shape("logits", logits)
      .last_dim_contiguous()
      .aligned();
  check.no_overlap("out", out, "logits", logits, true);
  if (temperature) {
    check.tensor("temperature", temperature).dtype({kFloat32}).shape({&batch_size}).aligned();
    check.no_overlap("out", out, "temperature", temperature, false);
  }
  check.that(temperature_scalar == temperature_scalar, "temperature_scalar", "NaN", "a number");

  SoftmaxArgs args{};
  args.out = rows_of("softmax", "out", out);
  args.logits = rows_of("softmax", "logits", logits);
  args.temperature = vector_of(temperature);
  args.out_dtype = float_kind(out.dtype());
  args.dtype = float_kind(logits.dtype());
  args.num_rows = batch_size;
  args.size = vocab_size;
  args.temperature_scalar = static_cast<float>(temperature_scalar);
  const Backend backend = enter(check.device());
  if (args.num_rows > 0 && args.size > 0) launch(backend, &OpTable::softmax, check.op(), args, stream);
}

}  // namespace musaic
