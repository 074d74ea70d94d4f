#include "ops/ggml_mul_mat/ggml_mul_mat.h"

#include <string>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/ggml_mul_mat/args.h"

namespace musaic {
namespace {

using Launcher = void (*OpTable::*)(const GgmlMulMatArgs&, Stream);

/// Bytes of M quantised rows of K elements; -1 if they exceed int64.
std::int64_t workspace_bytes(std::int64_t m, std::int64_t k) {
  if (k > std::int64_t{1} << 52) return -1;  // what follows stays inside int64
  const std::int64_t blocks = a8_most_row_blocks((k + kA8Block - 1) / kA8Block);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(blocks * kA8BlockBytes, m, &bytes)) return -1;
  return bytes;
}

void run(const char* op, Launcher launcher, const Tensor& out, const Tensor& weight, const Tensor& x,
         std::int64_t type, std::int64_t row, Stream stream, Workspace workspace) {
  const GgmlLayout& layout = checked_ggml_layout(op, type);
  Check check(op);
  check.tensor("x", x)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(1, Tensor::kMaxDims)
      .last_dim_contiguous()
      .aligned();
  check.tensor("weight", weight).dtype({kUInt8}).contiguous();
  check.tensor("out", out)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(x.ndim(), x.ndim())
      .last_dim_contiguous()
      .aligned();
  const int last = x.ndim() - 1;
  std::int64_t num_tokens = 1;
  // Texts are made on failure only: a decode step makes hundreds of calls of a few microseconds.
  const auto fail_shape = [&](const std::string& expected) {
    check.fail("out", "shape " + shape_to_string(out.shape(), out.ndim()), expected);
  };
  for (int i = 0; i < last; ++i) {
    if (out.size(i) != x.size(i))
      fail_shape("the leading sizes of x, " + shape_to_string(x.shape(), x.ndim()));
    num_tokens *= x.size(i);
  }
  if (out.size(last) != row) fail_shape("row=" + std::to_string(row) + " columns");
  const std::int64_t k = x.size(last), row_bytes = checked_ggml_bytes(op, layout, 1, k),
                     bytes = checked_ggml_bytes(op, layout, row, k);
  if (weight.numel() != bytes)
    check.fail("weight", std::to_string(weight.numel()) + " bytes",
               std::to_string(bytes) + " bytes (row=" + std::to_string(row) +
                   " rows of K=" + std::to_string(k) + " elements of " + layout.name + ")");
  check_plain_alignment(check, layout, weight);
  if (!is_plain(layout)) {
    const std::int64_t needed = workspace_bytes(num_tokens, k);
    if (needed < 0 || workspace.bytes < needed)
      check.fail("workspace", std::to_string(workspace.bytes) + " bytes",
                 std::to_string(needed) + " bytes or more (ggml_mul_mat_a8_workspace_bytes(" +
                     std::to_string(num_tokens) + ", " + std::to_string(k) + "))");
    if (needed > 0 && workspace.data == nullptr) check.fail("workspace", "null data", "memory");
    if (reinterpret_cast<std::uintptr_t>(workspace.data) % 64 != 0 && needed > 0)
      check.fail("workspace", "an address off a multiple of 64", "one on it");
  }
  check.no_overlap("out", out, "x", x, false);
  check.no_overlap("out", out, "weight", weight, false);

  GgmlMulMatArgs args{};
  args.out = rows_of(op, "out", out);
  args.x = rows_of(op, "x", x);
  args.weight = weight.data_as<const std::uint8_t>();
  args.workspace = static_cast<std::uint8_t*>(workspace.data);
  args.layout = layout;
  args.out_dtype = float_kind(out.dtype());
  args.x_dtype = float_kind(x.dtype());
  args.num_tokens = num_tokens;
  args.k = k;
  args.rows = row;
  args.row_bytes = row_bytes;
  const Backend backend = enter(check.device());
  if (num_tokens > 0 && row > 0) launch(backend, launcher, check.op(), args, stream);
}

}  // namespace

void ggml_mul_mat_a8(const Tensor& out, const Tensor& weight, const Tensor& x, std::int64_t type,
                     std::int64_t row, Stream stream, Workspace workspace) {
  run("ggml_mul_mat_a8", &OpTable::ggml_mul_mat_a8, out, weight, x, type, row, stream, workspace);
}

void ggml_mul_mat_vec_a8(const Tensor& out, const Tensor& weight, const Tensor& x, std::int64_t type,
                         std::int64_t row, Stream stream, Workspace workspace) {
  run("ggml_mul_mat_vec_a8", &OpTable::ggml_mul_mat_vec_a8, out, weight, x, type, row, stream, workspace);
}

std::int64_t ggml_mul_mat_a8_workspace_bytes(std::int64_t M, std::int64_t K) {
  const std::int64_t bytes = M < 0 || K < 0 ? -1 : workspace_bytes(M, K);
  if (bytes < 0)
    throw Error("ggml_mul_mat_a8_workspace_bytes", "size", std::to_string(M) + " x " + std::to_string(K),
                "sizes >= 0 whose bytes fit 64 bits");
  return bytes;
}

}  // namespace musaic
