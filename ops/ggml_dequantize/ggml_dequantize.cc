#include "ops/ggml_dequantize/ggml_dequantize.h"

#include <string>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/ggml_dequantize/args.h"

namespace musaic {
namespace {

struct OtherType {
  std::int64_t type;
  const char* name;
};
/// Formats that exist but that nothing here computes with.
constexpr OtherType kOtherTypes[] = {
    {4, "Q4_2, retired"}, {5, "Q4_3, retired"}, {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},
    {16, "IQ2_XXS"},      {17, "IQ2_XS"},       {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
    {22, "IQ2_S"},        {23, "IQ4_XS"},       {24, "I8"},      {25, "I16"},   {26, "I32"},    {27, "I64"},
    {28, "F64"},          {29, "IQ1_M"},        {34, "TQ1_0"},   {35, "TQ2_0"}, {39, "MXFP4"},
};

}  // namespace

const GgmlLayout& checked_ggml_layout(const char* op, std::int64_t type) {
  for (const GgmlLayout& l : kGgmlLayouts)
    if (static_cast<std::int64_t>(l.type) == type) return l;
  std::string known;
  for (const GgmlLayout& l : kGgmlLayouts)
    known += (known.empty() ? "" : ", ") + std::string(l.name) + " (" +
             std::to_string(static_cast<std::int64_t>(l.type)) + ")";
  std::string got = std::to_string(type);
  for (const OtherType& o : kOtherTypes)
    if (o.type == type) got += " (" + std::string(o.name) + ")";
  throw Error(op, "type", got, "one of " + known);
}

std::int64_t checked_ggml_bytes(const char* op, const GgmlLayout& layout, std::int64_t rows,
                                std::int64_t elements) {
  std::int64_t bytes = 0;
  if (rows < 0 || elements < 0 ||
      __builtin_mul_overflow(ggml_blocks(layout, elements), layout.block_bytes, &bytes) ||
      __builtin_mul_overflow(bytes, rows, &bytes))
    throw Error(op, "size", std::to_string(rows) + " x " + std::to_string(elements) + " elements",
                "sizes >= 0 whose bytes fit 64 bits");
  return bytes;
}

void check_plain_alignment(const Check& check, const GgmlLayout& layout, const Tensor& weight) {
  const auto off =
      reinterpret_cast<std::uintptr_t>(weight.data()) % static_cast<std::uintptr_t>(layout.block_bytes);
  if (is_plain(layout) && off != 0)
    check.fail("weight", "an address " + std::to_string(off) + " bytes off",
               "a multiple of the " + std::to_string(layout.block_bytes) + " bytes of " + layout.name);
}

std::int64_t ggml_row_bytes(std::int64_t type, std::int64_t elements) {
  return checked_ggml_bytes("ggml_row_bytes", checked_ggml_layout("ggml_row_bytes", type), 1, elements);
}

void ggml_dequantize(const Tensor& out, const Tensor& weight, std::int64_t type, std::int64_t m,
                     std::int64_t n, Stream stream) {
  constexpr const char* kOp = "ggml_dequantize";
  const GgmlLayout& layout = checked_ggml_layout(kOp, type);
  Check check(kOp);
  Dim rows("m", m, "m"), columns("n", n, "n");
  check.tensor("weight", weight).dtype({kUInt8}).contiguous();
  check.tensor("out", out)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&rows, &columns})
      .contiguous()
      .aligned();
  const std::int64_t elements = out.numel(), bytes = checked_ggml_bytes(kOp, layout, 1, elements);
  if (weight.numel() != bytes)
    check.fail("weight", std::to_string(weight.numel()) + " bytes",
               std::to_string(bytes) + " bytes (" + std::to_string(elements) + " elements of " + layout.name +
                   ", from m, n and type)");
  check_plain_alignment(check, layout, weight);
  check.no_overlap("out", out, "weight", weight, false);

  GgmlDequantizeArgs args{};
  args.out = out.data();
  args.weight = weight.data_as<const std::uint8_t>();
  args.layout = layout;
  args.dtype = float_kind(out.dtype());
  args.elements = elements;
  const Backend backend = enter(check.device());
  if (elements > 0) launch(backend, &OpTable::ggml_dequantize, check.op(), args, stream);
}

}  // namespace musaic
