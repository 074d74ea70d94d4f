#include "ops/concat_mla/concat_mla.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/concat_mla/args.h"

namespace musaic {
namespace {

struct Names {
  const char *out, *a, *b;
};

void run(const char* op, void (*OpTable::*launcher)(const ConcatArgs&, Stream), const Names& names,
         const Tensor& out, const Tensor& a, const Tensor& b, bool b_is_shared, Stream stream) {
  Check check(op);
  Dim tokens("num_tokens"), heads("num_heads"), a_size("a_size"), b_size("b_size"),
      one("one", 1, "the operator");
  check.tensor(names.a, a)
      .dtype({kBFloat16, kFloat16, kFloat32, kInt8, kUInt8, kInt32, kFloat8E4M3FN, kFloat8E4M3FNUZ,
              kFloat8E5M2, kFloat8E5M2FNUZ})
      .shape({&tokens, &heads, &a_size})
      .last_dim_contiguous()
      .aligned();
  check.tensor(names.b, b)
      .same_dtype(names.a, a)
      .shape({&tokens, b_is_shared ? &one : &heads, &b_size})
      .last_dim_contiguous()
      .aligned();
  Dim joined("joined size", a_size + b_size, names.a);
  check.tensor(names.out, out)
      .same_dtype(names.a, a)
      .shape({&tokens, &heads, &joined})
      .last_dim_contiguous()
      .aligned();
  check.no_overlap(names.out, out, names.a, a, false);
  check.no_overlap(names.out, out, names.b, b, false);
  const auto rows = [&](const Tensor& t, bool shared) {
    return RowView{t.data(), heads > 0 ? heads.value() : 1, t.stride(0), shared ? 0 : t.stride(1)};
  };
  ConcatArgs args{};
  args.out = rows(out, false);
  args.a = rows(a, false);
  args.b = rows(b, b_is_shared);
  args.element_bytes = static_cast<std::int32_t>(size_bytes(a.dtype()));
  args.num_rows = tokens * heads;
  args.a_size = a_size;
  args.b_size = b_size;
  const Backend backend = enter(check.device());
  if (args.num_rows > 0 && a_size + b_size > 0) launch(backend, launcher, check.op(), args, stream);
}

}  // namespace

void concat_mla_k(const Tensor& k, const Tensor& k_nope, const Tensor& k_rope, Stream stream) {
  run("concat_mla_k", &OpTable::concat_mla_k, {"k", "k_nope", "k_rope"}, k, k_nope, k_rope, true, stream);
}

void concat_mla_absorb_q(const Tensor& out, const Tensor& a, const Tensor& b, Stream stream) {
  run("concat_mla_absorb_q", &OpTable::concat_mla_absorb_q, {"out", "a", "b"}, out, a, b, false, stream);
}

}  // namespace musaic
