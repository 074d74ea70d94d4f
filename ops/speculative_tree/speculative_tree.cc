#include "ops/speculative_tree/speculative_tree.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/speculative_tree/args.h"

namespace musaic {
namespace {

constexpr std::int64_t kMostEntries = std::int64_t{1} << 22;  // so that a sum of weights fits 62 bits

IntegerArray array_of(const Tensor& t) {
  return {t.data(), static_cast<std::int32_t>(size_bytes(t.dtype()))};
}

void integers(Check& check, const char* name, const Tensor& t, std::initializer_list<Dim*> shape) {
  check.tensor(name, t).dtype({kInt32, kInt64}).shape(shape).contiguous().aligned();
}

struct Named {
  const char* name;
  const Tensor& tensor;
};

/// No written argument shares memory with any other.
void apart(Check& check, std::initializer_list<Named> written, std::initializer_list<Named> read) {
  for (const Named& w : written) {
    for (const Named& r : read)
      if (r.tensor) check.no_overlap(w.name, w.tensor, r.name, r.tensor, false);
    for (const Named& o : written) {
      if (&o == &w) break;
      check.no_overlap(w.name, w.tensor, o.name, o.tensor, false);
    }
  }
}

/// Flat numbers of one call must fit an output of int32.
void fits(Check& check, const char* name, const Tensor& t, std::int64_t count) {
  check.that(t.dtype() == kInt64 || count <= 0x7fffffff, name, "dtype int32",
             "int64 for " + std::to_string(count) + " nodes");
}

struct VerifySites {
  FaultSite index, token, sibling;
};
constexpr VerifySites kGreedySites{{"verify_tree_greedy", "retrive_index"},
                                   {"verify_tree_greedy", "retrive_next_token"},
                                   {"verify_tree_greedy", "retrive_next_sibling"}};
constexpr VerifySites kSamplingSites{{"tree_speculative_sampling_target_only", "retrive_index"},
                                     {"tree_speculative_sampling_target_only", "retrive_next_token"},
                                     {"tree_speculative_sampling_target_only", "retrive_next_sibling"}};

/// The arguments that both verifiers take.
VerifyTreeArgs verify_args(Check& check, Dim& batch_size, Dim& num_nodes, const Tensor& predicts,
                           const Tensor& accept_index, const Tensor& accept_token_num,
                           const Tensor& candidates, const Tensor& index, const Tensor& next_token,
                           const Tensor& next_sibling) {
  Dim num_predicts("num_predicts"), num_accepted("num_accepted");
  integers(check, "candidates", candidates, {&batch_size, &num_nodes});
  integers(check, "retrive_index", index, {&batch_size, &num_nodes});
  integers(check, "retrive_next_token", next_token, {&batch_size, &num_nodes});
  integers(check, "retrive_next_sibling", next_sibling, {&batch_size, &num_nodes});
  integers(check, "predicts", predicts, {&num_predicts});
  integers(check, "accept_index", accept_index, {&batch_size, &num_accepted});
  integers(check, "accept_token_num", accept_token_num, {&batch_size});
  const std::int64_t nodes = batch_size * num_nodes;
  check.that(num_predicts >= nodes, "predicts", "shape [" + std::to_string(num_predicts.value()) + "]",
             "at least batch_size * num_nodes = " + std::to_string(nodes));
  check.that(num_nodes > 0 || batch_size == 0, "candidates", "trees of 0 nodes", "at least a root");
  check.that(num_accepted > 0 || batch_size == 0, "accept_index", "rows of 0 entries",
             "room for the root at least");
  fits(check, "accept_index", accept_index, nodes);
  VerifyTreeArgs args{};
  args.predicts = array_of(predicts);
  args.accept_index = array_of(accept_index);
  args.accept_token_num = array_of(accept_token_num);
  args.candidates = array_of(candidates);
  args.links = {array_of(index), array_of(next_token), array_of(next_sibling)};
  args.batch_size = batch_size;
  args.num_nodes = num_nodes;
  args.num_predicts = num_predicts;
  args.num_accepted = num_accepted;
  return args;
}

void set_sites(VerifyTreeArgs& args, const Backend& backend, const VerifySites& sites) {
  args.bad_index = {backend.faults, &sites.index};
  args.bad_token_link = {backend.faults, &sites.token};
  args.bad_sibling_link = {backend.faults, &sites.sibling};
}

}  // namespace

void build_tree_kernel_efficient(const Tensor& parent_list, const Tensor& selected_index,
                                 const Tensor& verified_seq_len, const Tensor& tree_mask,
                                 const Tensor& positions, const Tensor& retrive_index,
                                 const Tensor& retrive_next_token, const Tensor& retrive_next_sibling,
                                 std::int64_t topk, std::int64_t depth, std::int64_t draft_token_num,
                                 std::int64_t tree_mask_mode, Stream stream) {
  static constexpr FaultSite kSelected{"build_tree_kernel_efficient", "selected_index"},
      kSeqLen{"build_tree_kernel_efficient", "verified_seq_len"};
  Check check(kSelected.op);
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  const auto range = [&](const char* name, std::int64_t v) {
    check.that(v >= 1 && v <= kMost, name, std::to_string(v), "1 to " + std::to_string(kMost));
  };
  range("topk", topk);
  range("depth", depth);
  range("draft_token_num", draft_token_num);
  check.that(tree_mask_mode >= 0 && tree_mask_mode <= 2, "tree_mask_mode", std::to_string(tree_mask_mode),
             "0, 1 or 2");
  check.that(tree_mask_mode != 2 || draft_token_num <= 32, "draft_token_num", std::to_string(draft_token_num),
             "at most 32 with tree_mask_mode 2");
  Dim batch_size("batch_size"), num_nodes("draft_token_num", draft_token_num, "draft_token_num"),
      drafts("draft_token_num - 1", draft_token_num - 1, "draft_token_num"),
      parents("topk * (depth - 1) + 1", topk * (depth - 1) + 1, "topk and depth"), mask_bytes("mask_bytes");
  integers(check, "verified_seq_len", verified_seq_len, {&batch_size});
  integers(check, "parent_list", parent_list, {&batch_size, &parents});
  integers(check, "selected_index", selected_index, {&batch_size, &drafts});
  const std::int64_t nodes = batch_size * draft_token_num;
  Dim flat("batch_size * draft_token_num", nodes, "verified_seq_len");
  integers(check, "positions", positions, {&flat});
  integers(check, "retrive_index", retrive_index, {&batch_size, &num_nodes});
  integers(check, "retrive_next_token", retrive_next_token, {&batch_size, &num_nodes});
  integers(check, "retrive_next_sibling", retrive_next_sibling, {&batch_size, &num_nodes});
  check.tensor("tree_mask", tree_mask).dtype({kBool, kUInt8}).contiguous();
  const std::int64_t row_bytes = tree_mask_mode == 2 ? (draft_token_num <= 8    ? 1
                                                        : draft_token_num <= 16 ? 2
                                                                                : 4)
                                                     : draft_token_num;
  check.that(tree_mask.numel() >= nodes * row_bytes, "tree_mask",
             std::to_string(tree_mask.numel()) + " elements",
             "at least " + std::to_string(nodes * row_bytes));
  fits(check, "retrive_index", retrive_index, nodes);
  apart(check,
        {{"tree_mask", tree_mask},
         {"positions", positions},
         {"retrive_index", retrive_index},
         {"retrive_next_token", retrive_next_token},
         {"retrive_next_sibling", retrive_next_sibling}},
        {{"parent_list", parent_list},
         {"selected_index", selected_index},
         {"verified_seq_len", verified_seq_len}});

  const Backend backend = enter(check.device());
  BuildTreeArgs args{};
  args.parents = array_of(parent_list);
  args.selected = array_of(selected_index);
  args.seq_lens = array_of(verified_seq_len);
  args.positions = array_of(positions);
  args.links = {array_of(retrive_index), array_of(retrive_next_token), array_of(retrive_next_sibling)};
  args.mask = tree_mask.data_as<unsigned char>();
  args.mask_bytes = tree_mask.numel();
  args.batch_size = batch_size;
  args.num_nodes = draft_token_num;
  args.parents_per_request = parents;
  args.topk = topk;
  args.mask_mode = static_cast<std::int32_t>(tree_mask_mode);
  args.bad_selected = {backend.faults, &kSelected};
  args.bad_seq_len = {backend.faults, &kSeqLen};
  if (nodes > 0) launch(backend, &OpTable::build_tree_kernel_efficient, check.op(), args, stream);
}

void reconstruct_indices_from_tree_mask(const Tensor& tree_mask, const Tensor& verified_seq_len,
                                        const Tensor& positions, const Tensor& retrive_index,
                                        const Tensor& retrive_next_token, const Tensor& retrive_next_sibling,
                                        std::int64_t batch_size, std::int64_t draft_token_num,
                                        Stream stream) {
  Check check("reconstruct_indices_from_tree_mask");
  const auto range = [&](const char* name, std::int64_t v) {
    check.that(v >= 0 && v < (std::int64_t{1} << 31), name, std::to_string(v), "0 to 2147483647");
  };
  range("batch_size", batch_size);
  range("draft_token_num", draft_token_num);
  const std::int64_t nodes = batch_size * draft_token_num;
  Dim requests("batch_size", batch_size, "batch_size"),
      num_nodes("draft_token_num", draft_token_num, "draft_token_num"),
      flat("batch_size * draft_token_num", nodes, "batch_size");
  check.tensor("tree_mask", tree_mask).dtype({kBool, kUInt8}).contiguous();
  check.that(nodes == 0 || (tree_mask.numel() % nodes == 0 && tree_mask.numel() / nodes == draft_token_num),
             "tree_mask", std::to_string(tree_mask.numel()) + " elements",
             "batch_size * draft_token_num * draft_token_num");
  integers(check, "verified_seq_len", verified_seq_len, {&requests});
  integers(check, "positions", positions, {&flat});
  integers(check, "retrive_index", retrive_index, {&requests, &num_nodes});
  integers(check, "retrive_next_token", retrive_next_token, {&requests, &num_nodes});
  integers(check, "retrive_next_sibling", retrive_next_sibling, {&requests, &num_nodes});
  fits(check, "retrive_index", retrive_index, nodes);
  apart(check,
        {{"positions", positions},
         {"retrive_index", retrive_index},
         {"retrive_next_token", retrive_next_token},
         {"retrive_next_sibling", retrive_next_sibling}},
        {{"tree_mask", tree_mask}, {"verified_seq_len", verified_seq_len}});

  ReconstructTreeArgs args{};
  args.mask = tree_mask.data_as<unsigned char>();
  args.seq_lens = array_of(verified_seq_len);
  args.positions = array_of(positions);
  args.links = {array_of(retrive_index), array_of(retrive_next_token), array_of(retrive_next_sibling)};
  args.batch_size = batch_size;
  args.num_nodes = draft_token_num;
  const Backend backend = enter(check.device());
  if (nodes > 0) launch(backend, &OpTable::reconstruct_indices_from_tree_mask, check.op(), args, stream);
}

void verify_tree_greedy(const Tensor& predicts, const Tensor& accept_index, const Tensor& accept_token_num,
                        const Tensor& candidates, const Tensor& retrive_index,
                        const Tensor& retrive_next_token, const Tensor& retrive_next_sibling,
                        const Tensor& target_predict, Stream stream) {
  Check check(kGreedySites.index.op);
  Dim batch_size("batch_size"), num_nodes("num_nodes");
  VerifyTreeArgs args = verify_args(check, batch_size, num_nodes, predicts, accept_index, accept_token_num,
                                    candidates, retrive_index, retrive_next_token, retrive_next_sibling);
  integers(check, "target_predict", target_predict, {&batch_size, &num_nodes});
  args.target_predict = array_of(target_predict);
  apart(check,
        {{"predicts", predicts}, {"accept_index", accept_index}, {"accept_token_num", accept_token_num}},
        {{"candidates", candidates},
         {"retrive_index", retrive_index},
         {"retrive_next_token", retrive_next_token},
         {"retrive_next_sibling", retrive_next_sibling},
         {"target_predict", target_predict}});
  const Backend backend = enter(check.device());
  set_sites(args, backend, kGreedySites);
  if (args.batch_size > 0) launch(backend, &OpTable::verify_tree_greedy, check.op(), args, stream);
}

void tree_speculative_sampling_target_only(const Tensor& predicts, const Tensor& accept_index,
                                           const Tensor& accept_token_num, const Tensor& candidates,
                                           const Tensor& retrive_index, const Tensor& retrive_next_token,
                                           const Tensor& retrive_next_sibling, const Tensor& uniform_samples,
                                           const Tensor& uniform_samples_for_final_sampling,
                                           const Tensor& target_probs, const Tensor& draft_probs,
                                           double threshold_single, double threshold_acc, bool,
                                           bool mark_rejected, Stream stream) {
  Check check(kSamplingSites.index.op);
  Dim batch_size("batch_size"), num_nodes("num_nodes"), vocab_size("vocab_size");
  SampleTreeArgs args{};
  args.tree = verify_args(check, batch_size, num_nodes, predicts, accept_index, accept_token_num, candidates,
                          retrive_index, retrive_next_token, retrive_next_sibling);
  check.tensor("uniform_samples", uniform_samples)
      .dtype({kFloat32})
      .shape({&batch_size, &num_nodes})
      .contiguous()
      .aligned();
  check.tensor("uniform_samples_for_final_sampling", uniform_samples_for_final_sampling)
      .dtype({kFloat32})
      .shape({&batch_size})
      .contiguous()
      .aligned();
  check.tensor("target_probs", target_probs)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&batch_size, &num_nodes, &vocab_size})
      .contiguous()
      .aligned();
  if (draft_probs)
    check.tensor("draft_probs", draft_probs)
        .same_dtype("target_probs", target_probs)
        .shape({&batch_size, &num_nodes, &vocab_size})
        .contiguous()
        .aligned();
  check.that(!mark_rejected || draft_probs, "draft_probs", "no tensor", "a tensor with mark_rejected");
  check.that((vocab_size > 0 || batch_size == 0) && vocab_size <= kMostEntries, "target_probs",
             "rows of " + std::to_string(vocab_size.value()) + " entries",
             "1 to " + std::to_string(kMostEntries));
  const auto threshold = [&](const char* name, double v) {
    check.that(v >= 0 && v <= 1, name, std::to_string(v), "a number in [0, 1]");
  };
  threshold("threshold_single", threshold_single);
  threshold("threshold_acc", threshold_acc);
  apart(check,
        {{"predicts", predicts}, {"accept_index", accept_index}, {"accept_token_num", accept_token_num}},
        {{"candidates", candidates},
         {"retrive_index", retrive_index},
         {"retrive_next_token", retrive_next_token},
         {"retrive_next_sibling", retrive_next_sibling},
         {"uniform_samples", uniform_samples},
         {"uniform_samples_for_final_sampling", uniform_samples_for_final_sampling},
         {"target_probs", target_probs},
         {"draft_probs", draft_probs}});
  if (mark_rejected) check.no_overlap("draft_probs", draft_probs, "target_probs", target_probs, false);

  args.uniform = uniform_samples.data_as<float>();
  args.uniform_final = uniform_samples_for_final_sampling.data_as<float>();
  args.target = target_probs.data();
  args.draft = draft_probs ? draft_probs.data() : nullptr;
  args.dtype = float_kind(target_probs.dtype());
  args.vocab_size = vocab_size;
  args.threshold_single = static_cast<float>(threshold_single);
  args.threshold_acc = static_cast<float>(threshold_acc < 1e-9 ? 1e-9 : threshold_acc);
  args.mark_rejected = mark_rejected;
  const Backend backend = enter(check.device());
  set_sites(args.tree, backend, kSamplingSites);
  if (args.tree.batch_size > 0)
    launch(backend, &OpTable::tree_speculative_sampling_target_only, check.op(), args, stream);
}

void segment_packbits(const Tensor& x, const Tensor& input_indptr, const Tensor& output_indptr,
                      const Tensor& y, std::int64_t batch_size, Stream stream) {
  static constexpr FaultSite kInput{"segment_packbits", "input_indptr"},
      kOutput{"segment_packbits", "output_indptr"};
  Check check(kInput.op);
  check.that(batch_size >= 0, "batch_size", std::to_string(batch_size), "0 or more");
  Dim x_size("x_size"), y_size("y_size"), ends("batch_size + 1", batch_size + 1, "batch_size");
  check.tensor("x", x).dtype({kBool, kUInt8}).shape({&x_size}).contiguous();
  integers(check, "input_indptr", input_indptr, {&ends});
  integers(check, "output_indptr", output_indptr, {&ends});
  check.tensor("y", y).dtype({kUInt8}).shape({&y_size}).contiguous();
  apart(check, {{"y", y}}, {{"x", x}, {"input_indptr", input_indptr}, {"output_indptr", output_indptr}});
  const Backend backend = enter(check.device());
  PackBitsArgs args{};
  args.x = x.data_as<unsigned char>();
  args.input_indptr = array_of(input_indptr);
  args.output_indptr = array_of(output_indptr);
  args.y = y.data_as<unsigned char>();
  args.batch_size = batch_size;
  args.x_size = x_size;
  args.y_size = y_size;
  args.bad_input = {backend.faults, &kInput};
  args.bad_output = {backend.faults, &kOutput};
  if (batch_size > 0) launch(backend, &OpTable::segment_packbits, check.op(), args, stream);
}

}  // namespace musaic
