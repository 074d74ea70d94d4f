#include "llm/model.h"

#include <cmath>
#include <limits>

#include "llm/tests/tiny_file.h"
#include "testing/testing.h"

namespace musaic::llm {
namespace {

using testing::expect_error;

void expect_refused(const TinyFile& file, const std::vector<std::string>& parts) {
  std::vector<std::string> all = {"tiny.gguf"};
  all.insert(all.end(), parts.begin(), parts.end());
  expect_error([&] { Model(file.open()); }, all);
}

TEST(Model, ReadsATinyLlama) {
  const TinyFile file({.seed = 1, .num_layers = 3});
  const Model model(file.open());
  const Config& c = model.config();
  EXPECT_EQ(c.num_layers, 3);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rotary_dim, 16);
  EXPECT_EQ(c.kv_size(), 32);
  EXPECT_EQ(c.vocab_size, 3 + 256 + 8);
  EXPECT_TRUE(model.tied());
  EXPECT_EQ(model.output().blocks.data(), model.embedding().blocks.data());
  EXPECT_EQ(model.step_bytes(), model.weight_bytes());
  for (const Layer& layer : model.layers()) {
    EXPECT_EQ(layer.q.rows, 64);
    EXPECT_EQ(layer.k.rows, 32);
    EXPECT_FALSE(layer.q.bias);
    EXPECT_EQ(layer.gate_up.blocks.data(), layer.gate.blocks.data());  // they lie back to back
    EXPECT_EQ(layer.gate_up.rows, 2 * 96);
  }
}

TEST(Model, UntiedOutputIsReadInEveryStepAndTheEmbeddingIsNot) {
  const TinyFile file({.tied = false, .biases = true});
  const Model model(file.open());
  EXPECT_FALSE(model.tied());
  EXPECT_EQ(model.weight_bytes() - model.step_bytes(), model.embedding().blocks.numel());
  EXPECT_TRUE(model.layers()[0].q.bias);
  EXPECT_EQ(model.layers()[0].v.bias.numel(), 32);
}

TEST(Model, NamesWhatItDoesNotSupport) {
  expect_refused(TinyFile().set_text("general.architecture", "gemma"),
                 {"general.architecture", "\"gemma\"", "one of \"llama\""});
  expect_refused(TinyFile().set_type("blk.1.ffn_up.weight", GgmlType::kIQ4_NL),
                 {"blk.1.ffn_up.weight", "type IQ4_NL",
                  "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K"});
}

TEST(Model, EveryNumberIsChecked) {
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.context_length",
        "llama.attention.head_count", "llama.attention.head_count_kv"})
    for (const uint32_t value : {0u, 0xFFFFFFFFu}) expect_refused(TinyFile().set(key, value), {key});
  expect_refused(TinyFile().set("llama.attention.head_count_kv", 3u),
                 {"head_count_kv: 3", "a divisor of", "4"});
  expect_refused(TinyFile().set("llama.attention.head_count", 5u), {"llama.attention.head_count"});
  expect_refused(TinyFile().set("llama.block_count", 3u), {"blk.2.attn_norm.weight"});
  expect_refused(TinyFile().set("llama.embedding_length", 128u),
                 {"token_embd.weight", "shape [64, 267]", "[128, 267]"});
  expect_refused(TinyFile().set("llama.feed_forward_length", 64u),
                 {"blk.0.ffn_gate.weight", "[64, 96]", "[64, 64]"});
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::infinity(), kNan})
    expect_refused(TinyFile().set("llama.rope.freq_base", value), {"llama.rope.freq_base"});
  for (const float value : {1.0f, -1e-5f, kNan})
    expect_refused(TinyFile().set("llama.attention.layer_norm_rms_epsilon", value),
                   {"layer_norm_rms_epsilon"});
}

TEST(Model, EveryTensorIsNeeded) {
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
        "blk.1.attn_k.weight", "blk.1.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
        "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight"}) {
    std::string other = name;
    other[0] = '!';
    expect_refused(TinyFile().rename(name, other), {name});
  }
}

TEST(Model, KeysThatAreMissingAreNamed) {
  for (const char* key :
       {"general.architecture", "llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
        "llama.context_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    std::string other = key;
    other[0] = '!';
    expect_refused(TinyFile().rename(key, other), {key});
  }
}

TEST(RopeTable, IsTheFormula) {
  Config c{};
  c.rotary_dim = 6;
  c.rope_base = 500000.0f;
  c.rope_factor = 4.0f;
  const std::vector<float> stretch = {1.0f, 2.5f, 8.0f};
  std::vector<float> table(100 * 6);
  fill_rope_table(c, stretch, 100, table.data());
  for (int p = 0; p < 100; ++p)
    for (int i = 0; i < 3; ++i) {
      const double angle = p / 4.0 * std::exp(-2.0 * i / 6.0 * std::log(500000.0)) /
                           static_cast<double>(stretch[static_cast<size_t>(i)]);
      EXPECT_NEAR(static_cast<double>(table[static_cast<size_t>(6 * p + i)]), std::cos(angle), 1e-7);
      EXPECT_NEAR(static_cast<double>(table[static_cast<size_t>(6 * p + 3 + i)]), std::sin(angle), 1e-7);
    }
}

}  // namespace
}  // namespace musaic::llm
