#include "ops/sampling/sampling.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/sampling/args.h"

namespace musaic {
namespace {

constexpr std::int64_t kMostEntries = std::int64_t{1} << 22;  // so that a sum of weights fits 62 bits

using Launcher = void (*OpTable::*)(const SamplingArgs&, Stream);

struct Inputs {
  const Tensor &tokens, &valid, &rows, &indices, &seed, &offset, &subsequence;
  const Tensor &temperature, &top_k, &top_p, &min_p;
  double temperature_scalar;
  std::int64_t top_k_scalar;
  double top_p_scalar, min_p_scalar;
  bool top_k_first;
};

void run(const char* op, const char* rows_name, const FaultSite& site, Launcher launcher, const Inputs& in,
         Stream stream) {
  Check check(op);
  Dim num_rows("num_rows"), vocab_size("vocab_size"), num_outputs("num_outputs");
  const auto written = [&](const char* name, const Tensor& t) {
    check.no_overlap(name, t, rows_name, in.rows, false);
    const struct {
      const char* name;
      const Tensor& tensor;
    } inputs[] = {{"indices", in.indices},
                  {"seed", in.seed},
                  {"offset", in.offset},
                  {"subsequence", in.subsequence},
                  {"temperature", in.temperature},
                  {"top_k", in.top_k},
                  {"top_p", in.top_p},
                  {"min_p", in.min_p}};
    for (const auto& input : inputs)
      if (input.tensor) check.no_overlap(name, t, input.name, input.tensor, false);
  };
  const auto optional = [&](const char* name, const Tensor& t, std::initializer_list<DType> dtypes,
                            Dim& size) {
    if (t) check.tensor(name, t).dtype(dtypes).shape({&size}).aligned();
  };

  check.tensor(rows_name, in.rows)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_rows, &vocab_size})
      .last_dim_contiguous()
      .aligned();
  check.tensor("tokens", in.tokens).dtype({kInt32, kInt64}).shape({&num_outputs}).aligned();
  if (!in.indices)
    check.that(
        num_outputs.value() == num_rows.value(), "tokens",
        "shape [" + std::to_string(num_outputs.value()) + "]",
        "[num_rows=" + std::to_string(num_rows.value()) + "] (from " + rows_name + ") without indices");
  optional("valid", in.valid, {kBool, kUInt8}, num_outputs);
  optional("indices", in.indices, {kInt32, kInt64}, num_outputs);
  check.tensor("seed", in.seed).dtype({kInt64}).shape({&num_outputs}).aligned();
  check.tensor("offset", in.offset).dtype({kInt64}).shape({&num_outputs}).aligned();
  optional("subsequence", in.subsequence, {kInt64}, num_outputs);
  optional("temperature", in.temperature, {kFloat32}, num_rows);
  optional("top_k", in.top_k, {kInt32, kInt64}, num_rows);
  optional("top_p", in.top_p, {kFloat32}, num_rows);
  optional("min_p", in.min_p, {kFloat32}, num_rows);
  check.that(vocab_size <= kMostEntries, rows_name,
             "rows of " + std::to_string(vocab_size.value()) + " entries",
             "at most " + std::to_string(kMostEntries));
  check.that(vocab_size > 0 || num_outputs == 0, rows_name, "rows of 0 entries", "at least one entry a row");
  const auto number = [&](const char* name, double v) { check.that(v == v, name, "NaN", "a number"); };
  number("temperature_scalar", in.temperature_scalar);
  number("top_p_scalar", in.top_p_scalar);
  number("min_p_scalar", in.min_p_scalar);
  written("tokens", in.tokens);
  if (in.valid) {
    written("valid", in.valid);
    check.no_overlap("valid", in.valid, "tokens", in.tokens, false);
  }

  const Backend backend = enter(check.device());
  SamplingArgs args{};
  args.tokens = vector_of(in.tokens);
  args.valid = vector_of(in.valid);
  args.indices = vector_of(in.indices);
  args.seed = vector_of(in.seed);
  args.offset = vector_of(in.offset);
  args.subsequence = vector_of(in.subsequence);
  args.temperature = vector_of(in.temperature);
  args.top_k = vector_of(in.top_k);
  args.top_p = vector_of(in.top_p);
  args.min_p = vector_of(in.min_p);
  args.rows = rows_of(op, rows_name, in.rows);
  args.dtype = float_kind(in.rows.dtype());
  args.num_outputs = num_outputs;
  args.num_rows = num_rows;
  args.vocab_size = vocab_size;
  args.top_k_scalar = in.top_k_scalar;
  args.temperature_scalar = static_cast<float>(in.temperature_scalar);
  args.top_p_scalar = static_cast<float>(in.top_p_scalar);
  args.min_p_scalar = static_cast<float>(in.min_p_scalar);
  args.top_k_first = in.top_k_first;
  args.bad_index = {backend.faults, &site};
  if (args.num_outputs > 0) launch(backend, launcher, check.op(), args, stream);
}

using RenormLauncher = void (*OpTable::*)(const RenormArgs&, Stream);

void run_renorm(const char* op, const char* out_name, const char* rows_name, RenormLauncher launcher,
                const Tensor& out, const Tensor& rows, const Tensor& top_k, std::int64_t top_k_scalar,
                const Tensor& top_p, double top_p_scalar, Stream stream) {
  Check check(op);
  Dim num_rows("num_rows"), vocab_size("vocab_size");
  check.tensor(rows_name, rows)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_rows, &vocab_size})
      .last_dim_contiguous()
      .aligned();
  check.tensor(out_name, out)
      .dtype({rows.dtype()})
      .shape({&num_rows, &vocab_size})
      .last_dim_contiguous()
      .aligned();
  check.no_overlap(out_name, out, rows_name, rows, true);
  if (top_k) {
    check.tensor("top_k", top_k).dtype({kInt32, kInt64}).shape({&num_rows}).aligned();
    check.no_overlap(out_name, out, "top_k", top_k, false);
  }
  if (top_p) {
    check.tensor("top_p", top_p).dtype({kFloat32}).shape({&num_rows}).aligned();
    check.no_overlap(out_name, out, "top_p", top_p, false);
  }
  check.that(top_p_scalar == top_p_scalar, "top_p_scalar", "NaN", "a number");
  check.that(vocab_size <= kMostEntries, rows_name,
             "rows of " + std::to_string(vocab_size.value()) + " entries",
             "at most " + std::to_string(kMostEntries));
  const Backend backend = enter(check.device());
  RenormArgs args{};
  args.out = rows_of(op, out_name, out);
  args.rows = rows_of(op, rows_name, rows);
  args.top_k = vector_of(top_k);
  args.top_p = vector_of(top_p);
  args.dtype = float_kind(rows.dtype());
  args.num_rows = num_rows;
  args.vocab_size = vocab_size;
  args.top_k_scalar = top_k_scalar;
  args.top_p_scalar = static_cast<float>(top_p_scalar);
  if (args.num_rows > 0 && args.vocab_size > 0) launch(backend, launcher, check.op(), args, stream);
}

}  // namespace

void top_k_renorm_probs(const Tensor& renorm_probs, const Tensor& probs, const Tensor& top_k,
                        std::int64_t top_k_scalar, Stream stream) {
  run_renorm("top_k_renorm_probs", "renorm_probs", "probs", &OpTable::top_k_renorm_probs, renorm_probs, probs,
             top_k, top_k_scalar, Tensor(), 1.0, stream);
}

void top_p_renorm_probs(const Tensor& renorm_probs, const Tensor& probs, const Tensor& top_p,
                        double top_p_scalar, Stream stream) {
  run_renorm("top_p_renorm_probs", "renorm_probs", "probs", &OpTable::top_p_renorm_probs, renorm_probs, probs,
             Tensor(), 0, top_p, top_p_scalar, stream);
}

void top_k_mask_logits(const Tensor& mask_logits, const Tensor& logits, const Tensor& top_k,
                       std::int64_t top_k_scalar, Stream stream) {
  run_renorm("top_k_mask_logits", "mask_logits", "logits", &OpTable::top_k_mask_logits, mask_logits, logits,
             top_k, top_k_scalar, Tensor(), 1.0, stream);
}

void sampling_from_logits(const Tensor& tokens, const Tensor& valid, const Tensor& logits,
                          const Tensor& indices, const Tensor& seed, const Tensor& offset,
                          const Tensor& subsequence, const Tensor& temperature, const Tensor& top_k,
                          const Tensor& top_p, const Tensor& min_p, double temperature_scalar,
                          std::int64_t top_k_scalar, double top_p_scalar, double min_p_scalar,
                          bool top_k_first, Stream stream, Workspace) {
  static constexpr FaultSite kSite{"sampling_from_logits", "indices"};
  run(kSite.op, "logits", kSite, &OpTable::sampling_from_logits,
      {tokens, valid, logits, indices, seed, offset, subsequence, temperature, top_k, top_p, min_p,
       temperature_scalar, top_k_scalar, top_p_scalar, min_p_scalar, top_k_first},
      stream);
}

void sampling_from_probs(const Tensor& tokens, const Tensor& valid, const Tensor& probs,
                         const Tensor& indices, const Tensor& seed, const Tensor& offset,
                         const Tensor& subsequence, const Tensor& top_k, const Tensor& top_p,
                         const Tensor& min_p, std::int64_t top_k_scalar, double top_p_scalar,
                         double min_p_scalar, bool top_k_first, Stream stream, Workspace) {
  static constexpr FaultSite kSite{"sampling_from_probs", "indices"};
  const Tensor no_temperature;
  run(kSite.op, "probs", kSite, &OpTable::sampling_from_probs,
      {tokens, valid, probs, indices, seed, offset, subsequence, no_temperature, top_k, top_p, min_p, 1.0,
       top_k_scalar, top_p_scalar, min_p_scalar, top_k_first},
      stream);
}

std::int64_t sampling_workspace_bytes(std::int64_t, std::int64_t, Device) { return 0; }

}  // namespace musaic
