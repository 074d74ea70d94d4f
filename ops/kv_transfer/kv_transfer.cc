#include "ops/kv_transfer/kv_transfer.h"

#include <limits>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/kv_transfer/args.h"

namespace musaic {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
constexpr DType kUInt64{1, 64, 1};

struct Named {
  const char* name;
  const Tensor& tensor;
};

/// One call: its device, its checks, its arguments.
class Transfer {
 public:
  Transfer(const char* op, const FaultSite* sites, std::int64_t item_size, std::int64_t block_quota,
           std::int64_t warps)
      : check_(op), sites_(sites), item_(item_size) {
    check_.that(item_size > 0, "item_size", std::to_string(item_size), "a number of bytes from 1 on");
    check_.that(block_quota > 0, "block_quota", std::to_string(block_quota), "1 or more");
    check_.that(warps >= 1 && warps <= 32, "num_warps_per_block", std::to_string(warps), "1 to 32");
    a_.num_parts = a_.num_layers = a_.num_heads = 1;
    a_.piece_bytes = item_size;
    a_.block_quota = block_quota < 0x7fffffff ? block_quota : 0x7fffffff;
    a_.warps_per_block = warps;
  }

  KvTransferPool& src() { return a_.src; }
  KvTransferPool& dst() { return a_.dst; }

  /// The device of the call: the first that is no host memory.
  void runs_where(std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* t : tensors)
      if (*t && t->device().type != DeviceType::kCpu) {
        device_ = t->device();
        return;
      }
  }

  void indices(const Tensor& src, const Tensor& dst) {
    Dim n("num_tokens");
    check_.that(static_cast<bool>(src), "src_indices", "no tensor", "a tensor");
    on_host_ = src.device().type == DeviceType::kCpu;
    // Apart from the pools, which may be elsewhere.
    Check lists(check_.op());
    lists.tensor("src_indices", src).dtype({kInt32, kInt64}).shape({&n}).contiguous().aligned();
    lists.tensor("dst_indices", dst).dtype({kInt32, kInt64}).shape({&n}).contiguous().aligned();
    if (!on_host_)
      check_.that(src.device() == device_, "src_indices", "device " + to_string(src.device()),
                  to_string(device_) + ", or the host");
    a_.num_tokens = n;
    a_.src.indices = src.data();
    a_.dst.indices = dst.data();
    a_.src.indices_are_64_bit = src.dtype() == kInt64;
    a_.dst.indices_are_64_bit = dst.dtype() == kInt64;
  }

  /// A layer tensor, as part 0 or 1.
  void layer(KvTransferPool& pool, int part, Named p) {
    const Tensor t = pool_tensor(p);
    std::int64_t stride = item_, tokens = bytes(t) / item_;
    if (!t.is_contiguous()) {
      const bool rows_are_items =
          t.ndim() >= 1 && t.size(0) > 0 && bytes(t[0]) == item_ && t[0].is_contiguous() && t.stride(0) >= 0;
      check_.that(rows_are_items, p.name, "strides " + shape_to_string(t.strides(), t.ndim()),
                  "a contiguous tensor, or rows of item_size bytes");
      stride = t.stride(0) * size_bytes(t.dtype());
      tokens = t.size(0);
    }
    if (part == 1 && pool.page_stride != stride)
      check_.fail(p.name, "rows " + std::to_string(stride) + " bytes apart",
                  std::to_string(pool.page_stride) + ", as the keys");
    pool.bases[part] = t.data_as<char>();
    pool.page_size = 1;
    pool.page_stride = stride;
    limit(pool, part, tokens);
  }

  void table(KvTransferPool& pool, int part, Named p, std::int64_t num_layers, std::int64_t tokens,
             const char* tokens_name) {
    layers(num_layers);
    Dim n("num_layers", num_layers, "num_layers");
    check_.tensor(p.name, p.tensor).dtype({kInt64, kUInt64}).shape({&n}).contiguous().aligned();
    check_.that(p.tensor.device() == device_, p.name, "device " + to_string(p.tensor.device()),
                to_string(device_) + ", as the pools");
    check_.that(tokens >= -1, tokens_name, std::to_string(tokens), "a number of tokens, or -1");
    pool.tables[part] = p.tensor.data_as<const std::uint64_t>();
    pool.page_size = 1;
    pool.page_stride = item_;
    limit(pool, part, tokens < 0 ? kUnknown : tokens);
  }

  void page_first(KvTransferPool& pool, int part, Named p, const char* dim_name, std::int64_t layout_dim,
                  std::int64_t first_layer, std::int64_t num_layers) {
    const Tensor t = pool_tensor(p);
    check_.that(t.is_contiguous(), p.name, "strides " + shape_to_string(t.strides(), t.ndim()),
                "a contiguous tensor");
    layout(dim_name, layout_dim, first_layer, num_layers);
    pool.bases[part] = t.data_as<char>() + first_layer * item_;
    pool.page_size = 1;
    pool.page_stride = layout_dim;
    pool.layer_stride = item_;
    limit(pool, part, bytes(t) / layout_dim);
  }

  void page_head(KvTransferPool& pool, int part, Named p, const char* dim_name, std::int64_t layout_dim,
                 std::int64_t first_layer, std::int64_t num_layers, std::int64_t page_size,
                 std::int64_t heads) {
    const Tensor t = pool_tensor(p);
    check_.that(t.is_contiguous(), p.name, "strides " + shape_to_string(t.strides(), t.ndim()),
                "a contiguous tensor");
    layout(dim_name, layout_dim, first_layer, num_layers);
    check_.that(page_size > 0, "page_size", std::to_string(page_size), "1 or more");
    check_.that(page_size <= kUnknown / layout_dim, "page_size", std::to_string(page_size),
                "a page in 64 bits");
    check_.that(heads > 0 && heads <= 0x7fffffff && item_ % heads == 0 && layout_dim % heads == 0, "head_num",
                std::to_string(heads),
                "a divisor of item_size=" + std::to_string(item_) + " and " + dim_name + "=" +
                    std::to_string(layout_dim));
    const std::int64_t piece = item_ / heads, slot = layout_dim / heads;
    pool.bases[part] = t.data_as<char>() + first_layer * piece;
    pool.page_size = page_size;
    pool.page_stride = page_size * layout_dim;
    pool.slot_stride = slot;
    pool.head_stride = slot * page_size;
    pool.layer_stride = piece;
    KvTransferPool& other = &pool == &a_.src ? a_.dst : a_.src;
    other.head_stride = piece;
    a_.piece_bytes = piece;
    a_.num_heads = static_cast<std::int32_t>(heads);
    // Whole pages alone: the heads of a token are spread over its page.
    limit(pool, part, bytes(t) / (page_size * layout_dim) * page_size);
  }

  void run(void (*OpTable::*op)(const KvTransferArgs&, Stream), Stream stream) {
    check_.that(std::int64_t{a_.num_layers} * a_.num_heads <= 0x3fffffff, "num_layers",
                std::to_string(a_.num_layers), "num_layers * head_num below 2^30");
    check_.that(a_.num_tokens <= (kUnknown >> 32), "src_indices", std::to_string(a_.num_tokens) + " tokens",
                "fewer than 2^31");
    a_.indices_on_host = on_host_;
    const Backend backend = enter(device_);
    a_.src.fault = {backend.faults, &sites_[0]};
    a_.dst.fault = {backend.faults, &sites_[1]};
    if (a_.num_tokens > 0 && a_.num_layers > 0) launch(backend, op, check_.op(), a_, stream);
  }

 private:
  static std::int64_t bytes(const Tensor& t) { return t.numel() * size_bytes(t.dtype()); }

  /// A pool on the device of the call; host memory counts as that.
  Tensor pool_tensor(Named p) {
    check_.that(static_cast<bool>(p.tensor), p.name, "no tensor", "a tensor");
    const Tensor& t = p.tensor;
    const Tensor there(t.data(), t.dtype(), t.shape(), t.strides(), t.ndim(),
                       t.device().type == DeviceType::kCpu ? device_ : t.device());
    check_.tensor(p.name, there);
    return there;
  }

  void layers(std::int64_t n) {
    check_.that(n >= 0 && n <= 0x3fffffff, "num_layers", std::to_string(n), "0 to 2^30 - 1");
    a_.num_layers = static_cast<std::int32_t>(n);
  }

  void layout(const char* name, std::int64_t dim, std::int64_t first_layer, std::int64_t num_layers) {
    check_.that(dim >= item_, name, std::to_string(dim), "at least item_size=" + std::to_string(item_));
    check_.that(first_layer >= 0 && first_layer < dim / item_, "layer_id", std::to_string(first_layer),
                "0 to " + std::to_string(dim / item_ - 1));
    check_.that(num_layers <= dim / item_ - first_layer, name, std::to_string(dim),
                std::to_string(num_layers) + " layers of item_size=" + std::to_string(item_));
  }

  void limit(KvTransferPool& pool, int part, std::int64_t tokens) {
    if (part == 1) a_.num_parts = 2;
    if (part == 0 || tokens < pool.num_tokens) pool.num_tokens = tokens;
  }

  Check check_;
  const FaultSite* sites_;
  std::int64_t item_;
  Device device_;
  bool on_host_ = false;
  KvTransferArgs a_{};
};

#define MUSAIC_SITES(op) static constexpr FaultSite sites[2] = {{op, "src_indices"}, {op, "dst_indices"}}

// --- the direct forms

std::vector<std::int64_t> read_indices(Check& check, const char* name, const Tensor& t,
                                       std::int64_t page_size, Stream stream) {
  Check list(check.op());
  Dim n("num_tokens");
  list.tensor(name, t).dtype({kInt32, kInt64}).shape({&n}).contiguous().aligned();
  check.that(page_size > 0, "page_size", std::to_string(page_size), "1 or more");
  check.that(n % page_size == 0, name, std::to_string(n) + " tokens",
             "a multiple of page_size=" + std::to_string(page_size));
  std::vector<std::int64_t> v(static_cast<std::size_t>(n));
  if (v.empty()) return v;
  std::vector<std::int32_t> narrow(t.dtype() == kInt32 ? v.size() : 0);
  void* to = narrow.empty() ? static_cast<void*>(v.data()) : narrow.data();
  copy_to_host(t.device(), to, t.data(), n * size_bytes(t.dtype()), stream, true);
  for (std::size_t i = 0; i < narrow.size(); ++i) v[i] = narrow[i];
  return v;
}

/// Copies between any two of device and host, in stream order.
void copy_bytes(const Tensor& dst, std::int64_t to, const Tensor& src, std::int64_t from, std::int64_t bytes,
                Stream stream) {
  char* d = dst.data_as<char>() + to;
  const char* s = src.data_as<const char>() + from;
  const bool to_device = dst.device().type != DeviceType::kCpu,
             from_device = src.device().type != DeviceType::kCpu;
  if (to_device && !from_device)
    copy_to_device(dst.device(), d, s, bytes, stream, false);
  else if (from_device && !to_device)
    copy_to_host(src.device(), d, s, bytes, stream, false);
  else
    copy_on_device(dst.device(), d, s, bytes, stream);
}

struct Pool {
  const char* name;
  const std::vector<Tensor>& tensors;
};

/// Every tensor there, contiguous, of `rank` dimensions or more and the first one's bytes a row; on one device or on the
/// host.
void check_pool(const Check& check, const Pool& pool, int rank, Device* device) {
  for (const Tensor& t : pool.tensors) {
    check.that(static_cast<bool>(t) && t.ndim() >= rank, pool.name,
               t ? std::to_string(t.ndim()) + " dimensions" : "no tensor",
               "tensors of " + std::to_string(rank) + " dimensions or more");
    check.that(t.is_contiguous(), pool.name, "strides " + shape_to_string(t.strides(), t.ndim()),
               "contiguous tensors");
    if (t.device().type == DeviceType::kCpu) continue;
    if (device->type == DeviceType::kCpu) *device = t.device();
    check.that(t.device() == *device, pool.name, "device " + to_string(t.device()), to_string(*device));
  }
}

/// Bytes of an element of dimensions [0, dims).
std::int64_t inner_bytes(const Tensor& t, int dims) {
  std::int64_t n = size_bytes(t.dtype());
  for (int d = dims; d < t.ndim(); ++d) n *= t.size(d);
  return n;
}

void check_index(const Check& check, const char* name, std::int64_t i, std::int64_t first, std::int64_t count,
                 std::int64_t tokens) {
  check.that(first >= 0 && count <= tokens && first <= tokens - count, name,
             std::to_string(first) + " at " + std::to_string(i), "an index inside its table");
}

/// Token ranges of pages of `page` tokens between layer tensors and layer L of page-first tensors.
void copy_pages(const Check& check, const Tensor& paged, const Tensor& layer, std::int64_t layer_id,
                const std::vector<std::int64_t>& page_list, const std::vector<std::int64_t>& token_list,
                const char* page_name, const char* token_name, std::int64_t page_size, bool to_paged,
                bool only_check, Stream stream) {
  const std::int64_t item = inner_bytes(paged, 3), row = inner_bytes(layer, 1), bytes = page_size * item;
  check.that(paged.size(2) == page_size, to_paged ? "dst_ptrs" : "src_ptrs",
             "shape " + shape_to_string(paged.shape(), paged.ndim()),
             "[pages, layers, page_size=" + std::to_string(page_size) + ", ...]");
  check.that(row == item, to_paged ? "src_ptrs" : "dst_ptrs", std::to_string(row) + " bytes a token",
             std::to_string(item) + ", as the page-first tensor");
  check.that(layer_id >= 0 && layer_id < paged.size(1), "layer_id", std::to_string(layer_id),
             "0 to " + std::to_string(paged.size(1) - 1));
  for (std::size_t i = 0; i < page_list.size(); i += static_cast<std::size_t>(page_size)) {
    const std::int64_t first = page_list[i], token = token_list[i], at = static_cast<std::int64_t>(i);
    if (only_check) {
      check_index(check, page_name, at, first, page_size, paged.size(0) * page_size);
      check.that(first % page_size == 0, page_name, std::to_string(first) + " at " + std::to_string(at),
                 "the first token of a page of " + std::to_string(page_size));
      check_index(check, token_name, at, token, page_size, layer.size(0));
      continue;
    }
    const std::int64_t in_paged = (first / page_size * paged.size(1) + layer_id) * bytes;
    if (bytes == 0) continue;
    if (to_paged)
      copy_bytes(paged, in_paged, layer, token * item, bytes, stream);
    else
      copy_bytes(layer, token * item, paged, in_paged, bytes, stream);
  }
}

}  // namespace

void transfer_kv_per_layer(const Tensor& src_k, const Tensor& dst_k, const Tensor& src_v, const Tensor& dst_v,
                           const Tensor& src_indices, const Tensor& dst_indices, std::int64_t item_size,
                           std::int64_t block_quota, std::int64_t num_warps_per_block, Stream stream) {
  MUSAIC_SITES("transfer_kv_per_layer");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_k, &dst_k, &src_v, &dst_v, &src_indices, &dst_indices});
  t.layer(t.src(), 0, {"src_k", src_k});
  t.layer(t.dst(), 0, {"dst_k", dst_k});
  t.layer(t.src(), 1, {"src_v", src_v});
  t.layer(t.dst(), 1, {"dst_v", dst_v});
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_per_layer, stream);
}

void transfer_kv_per_layer_mla(const Tensor& src, const Tensor& dst, const Tensor& src_indices,
                               const Tensor& dst_indices, std::int64_t item_size, std::int64_t block_quota,
                               std::int64_t num_warps_per_block, Stream stream) {
  MUSAIC_SITES("transfer_kv_per_layer_mla");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src, &dst, &src_indices, &dst_indices});
  t.layer(t.src(), 0, {"src", src});
  t.layer(t.dst(), 0, {"dst", dst});
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_per_layer_mla, stream);
}

void transfer_kv_per_layer_pf_lf(const Tensor& src_k, const Tensor& dst_k, const Tensor& src_v,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t layer_id, std::int64_t item_size, std::int64_t src_layout_dim,
                                 std::int64_t block_quota, std::int64_t num_warps_per_block, Stream stream) {
  MUSAIC_SITES("transfer_kv_per_layer_pf_lf");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_k, &dst_k, &src_v, &dst_v, &src_indices, &dst_indices});
  t.page_first(t.src(), 0, {"src_k", src_k}, "src_layout_dim", src_layout_dim, layer_id, 1);
  t.layer(t.dst(), 0, {"dst_k", dst_k});
  t.page_first(t.src(), 1, {"src_v", src_v}, "src_layout_dim", src_layout_dim, layer_id, 1);
  t.layer(t.dst(), 1, {"dst_v", dst_v});
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_per_layer_pf_lf, stream);
}

void transfer_kv_per_layer_mla_pf_lf(const Tensor& src, const Tensor& dst, const Tensor& src_indices,
                                     const Tensor& dst_indices, std::int64_t layer_id, std::int64_t item_size,
                                     std::int64_t src_layout_dim, std::int64_t block_quota,
                                     std::int64_t num_warps_per_block, Stream stream) {
  MUSAIC_SITES("transfer_kv_per_layer_mla_pf_lf");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src, &dst, &src_indices, &dst_indices});
  t.page_first(t.src(), 0, {"src", src}, "src_layout_dim", src_layout_dim, layer_id, 1);
  t.layer(t.dst(), 0, {"dst", dst});
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_per_layer_mla_pf_lf, stream);
}

void transfer_kv_per_layer_ph_lf(const Tensor& src_k, const Tensor& dst_k, const Tensor& src_v,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t layer_id, std::int64_t item_size, std::int64_t src_layout_dim,
                                 std::int64_t page_size, std::int64_t head_num, std::int64_t block_quota,
                                 std::int64_t num_warps_per_block, Stream stream) {
  MUSAIC_SITES("transfer_kv_per_layer_ph_lf");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_k, &dst_k, &src_v, &dst_v, &src_indices, &dst_indices});
  t.page_head(t.src(), 0, {"src_k", src_k}, "src_layout_dim", src_layout_dim, layer_id, 1, page_size,
              head_num);
  t.layer(t.dst(), 0, {"dst_k", dst_k});
  t.page_head(t.src(), 1, {"src_v", src_v}, "src_layout_dim", src_layout_dim, layer_id, 1, page_size,
              head_num);
  t.layer(t.dst(), 1, {"dst_v", dst_v});
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_per_layer_ph_lf, stream);
}

void transfer_kv_all_layer(const Tensor& src_k_layers, const Tensor& dst_k_layers, const Tensor& src_v_layers,
                           const Tensor& dst_v_layers, const Tensor& src_indices, const Tensor& dst_indices,
                           std::int64_t item_size, std::int64_t num_layers, std::int64_t block_quota,
                           std::int64_t num_warps_per_block, std::int64_t src_tokens, std::int64_t dst_tokens,
                           Stream stream) {
  MUSAIC_SITES("transfer_kv_all_layer");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_k_layers, &dst_k_layers, &src_v_layers, &dst_v_layers, &src_indices, &dst_indices});
  t.table(t.src(), 0, {"src_k_layers", src_k_layers}, num_layers, src_tokens, "src_tokens");
  t.table(t.dst(), 0, {"dst_k_layers", dst_k_layers}, num_layers, dst_tokens, "dst_tokens");
  t.table(t.src(), 1, {"src_v_layers", src_v_layers}, num_layers, src_tokens, "src_tokens");
  t.table(t.dst(), 1, {"dst_v_layers", dst_v_layers}, num_layers, dst_tokens, "dst_tokens");
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_all_layer, stream);
}

void transfer_kv_all_layer_mla(const Tensor& src_layers, const Tensor& dst_layers, const Tensor& src_indices,
                               const Tensor& dst_indices, std::int64_t item_size, std::int64_t num_layers,
                               std::int64_t block_quota, std::int64_t num_warps_per_block,
                               std::int64_t src_tokens, std::int64_t dst_tokens, Stream stream) {
  MUSAIC_SITES("transfer_kv_all_layer_mla");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_layers, &dst_layers, &src_indices, &dst_indices});
  t.table(t.src(), 0, {"src_layers", src_layers}, num_layers, src_tokens, "src_tokens");
  t.table(t.dst(), 0, {"dst_layers", dst_layers}, num_layers, dst_tokens, "dst_tokens");
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_all_layer_mla, stream);
}

void transfer_kv_all_layer_lf_pf(const Tensor& src_k_layers, const Tensor& dst_k, const Tensor& src_v_layers,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t item_size, std::int64_t dst_layout_dim, std::int64_t num_layers,
                                 std::int64_t block_quota, std::int64_t num_warps_per_block,
                                 std::int64_t src_tokens, Stream stream) {
  MUSAIC_SITES("transfer_kv_all_layer_lf_pf");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_k_layers, &dst_k, &src_v_layers, &dst_v, &src_indices, &dst_indices});
  t.table(t.src(), 0, {"src_k_layers", src_k_layers}, num_layers, src_tokens, "src_tokens");
  t.page_first(t.dst(), 0, {"dst_k", dst_k}, "dst_layout_dim", dst_layout_dim, 0, num_layers);
  t.table(t.src(), 1, {"src_v_layers", src_v_layers}, num_layers, src_tokens, "src_tokens");
  t.page_first(t.dst(), 1, {"dst_v", dst_v}, "dst_layout_dim", dst_layout_dim, 0, num_layers);
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_all_layer_lf_pf, stream);
}

void transfer_kv_all_layer_mla_lf_pf(const Tensor& src_layers, const Tensor& dst, const Tensor& src_indices,
                                     const Tensor& dst_indices, std::int64_t item_size,
                                     std::int64_t dst_layout_dim, std::int64_t num_layers,
                                     std::int64_t block_quota, std::int64_t num_warps_per_block,
                                     std::int64_t src_tokens, Stream stream) {
  MUSAIC_SITES("transfer_kv_all_layer_mla_lf_pf");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_layers, &dst, &src_indices, &dst_indices});
  t.table(t.src(), 0, {"src_layers", src_layers}, num_layers, src_tokens, "src_tokens");
  t.page_first(t.dst(), 0, {"dst", dst}, "dst_layout_dim", dst_layout_dim, 0, num_layers);
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_all_layer_mla_lf_pf, stream);
}

void transfer_kv_all_layer_lf_ph(const Tensor& src_k_layers, const Tensor& dst_k, const Tensor& src_v_layers,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t item_size, std::int64_t dst_layout_dim, std::int64_t num_layers,
                                 std::int64_t page_size, std::int64_t head_num, std::int64_t block_quota,
                                 std::int64_t num_warps_per_block, std::int64_t src_tokens, Stream stream) {
  MUSAIC_SITES("transfer_kv_all_layer_lf_ph");
  Transfer t(sites[0].op, sites, item_size, block_quota, num_warps_per_block);
  t.runs_where({&src_k_layers, &dst_k, &src_v_layers, &dst_v, &src_indices, &dst_indices});
  t.table(t.src(), 0, {"src_k_layers", src_k_layers}, num_layers, src_tokens, "src_tokens");
  t.page_head(t.dst(), 0, {"dst_k", dst_k}, "dst_layout_dim", dst_layout_dim, 0, num_layers, page_size,
              head_num);
  t.table(t.src(), 1, {"src_v_layers", src_v_layers}, num_layers, src_tokens, "src_tokens");
  t.page_head(t.dst(), 1, {"dst_v", dst_v}, "dst_layout_dim", dst_layout_dim, 0, num_layers, page_size,
              head_num);
  t.indices(src_indices, dst_indices);
  t.run(&OpTable::transfer_kv_all_layer_lf_ph, stream);
}

void transfer_kv_direct(const std::vector<Tensor>& src_layers, const std::vector<Tensor>& dst_layers,
                        const Tensor& src_indices, const Tensor& dst_indices, std::int64_t page_size,
                        Stream stream) {
  Check check("transfer_kv_direct");
  Device device;
  check_pool(check, {"src_layers", src_layers}, 1, &device);
  check_pool(check, {"dst_layers", dst_layers}, 1, &device);
  check.that(src_layers.size() == dst_layers.size(), "dst_layers",
             std::to_string(dst_layers.size()) + " layers",
             std::to_string(src_layers.size()) + ", as src_layers");
  const auto from = read_indices(check, "src_indices", src_indices, page_size, stream),
             to = read_indices(check, "dst_indices", dst_indices, page_size, stream);
  check.that(from.size() == to.size(), "dst_indices", std::to_string(to.size()) + " tokens",
             std::to_string(from.size()) + ", as src_indices");
  for (std::size_t l = 0; l < src_layers.size(); ++l) {
    check.that(inner_bytes(src_layers[l], 1) == inner_bytes(dst_layers[l], 1), "dst_layers",
               std::to_string(inner_bytes(dst_layers[l], 1)) + " bytes a token in layer " + std::to_string(l),
               std::to_string(inner_bytes(src_layers[l], 1)) + ", as in src_layers");
    for (std::size_t i = 0; i < from.size(); ++i) {
      check_index(check, "src_indices", static_cast<std::int64_t>(i), from[i], 1, src_layers[l].size(0));
      check_index(check, "dst_indices", static_cast<std::int64_t>(i), to[i], 1, dst_layers[l].size(0));
    }
  }
  enter(device);
  for (std::size_t i = 0, n = 0; i < from.size(); i += n) {
    for (n = 1; i + n < from.size() && from[i + n] == from[i + n - 1] + 1 && to[i + n] == to[i + n - 1] + 1;)
      ++n;
    for (std::size_t l = 0; l < src_layers.size(); ++l)
      if (const std::int64_t row = inner_bytes(src_layers[l], 1); row > 0)
        copy_bytes(dst_layers[l], to[i] * row, src_layers[l], from[i] * row,
                   static_cast<std::int64_t>(n) * row, stream);
  }
}

void transfer_kv_per_layer_direct_pf_lf(const std::vector<Tensor>& src_ptrs,
                                        const std::vector<Tensor>& dst_ptrs, const Tensor& src_indices,
                                        const Tensor& dst_indices, std::int64_t layer_id,
                                        std::int64_t page_size, Stream stream) {
  Check check("transfer_kv_per_layer_direct_pf_lf");
  Device device;
  check_pool(check, {"src_ptrs", src_ptrs}, 3, &device);
  check_pool(check, {"dst_ptrs", dst_ptrs}, 1, &device);
  check.that(src_ptrs.size() == 1 || src_ptrs.size() == 2, "src_ptrs",
             std::to_string(src_ptrs.size()) + " tensors", "1 or 2");
  check.that(dst_ptrs.size() == src_ptrs.size(), "dst_ptrs", std::to_string(dst_ptrs.size()) + " tensors",
             std::to_string(src_ptrs.size()) + ", as src_ptrs");
  const auto from = read_indices(check, "src_indices", src_indices, page_size, stream),
             to = read_indices(check, "dst_indices", dst_indices, page_size, stream);
  check.that(from.size() == to.size(), "dst_indices", std::to_string(to.size()) + " tokens",
             std::to_string(from.size()) + ", as src_indices");
  for (const bool only_check : {true, false}) {
    if (!only_check) enter(device);
    for (std::size_t p = 0; p < src_ptrs.size(); ++p)
      copy_pages(check, src_ptrs[p], dst_ptrs[p], layer_id, from, to, "src_indices", "dst_indices", page_size,
                 false, only_check, stream);
  }
}

void transfer_kv_all_layer_direct_lf_pf(const std::vector<Tensor>& src_ptrs,
                                        const std::vector<Tensor>& dst_ptrs, const Tensor& src_indices,
                                        const Tensor& dst_indices, std::int64_t page_size, Stream stream) {
  Check check("transfer_kv_all_layer_direct_lf_pf");
  Device device;
  check_pool(check, {"src_ptrs", src_ptrs}, 1, &device);
  check_pool(check, {"dst_ptrs", dst_ptrs}, 3, &device);
  check.that(dst_ptrs.size() == 1 || dst_ptrs.size() == 2, "dst_ptrs",
             std::to_string(dst_ptrs.size()) + " tensors", "1 or 2");
  check.that(src_ptrs.size() % dst_ptrs.size() == 0, "src_ptrs", std::to_string(src_ptrs.size()) + " tensors",
             "as many layers for each of dst_ptrs");
  const auto from = read_indices(check, "src_indices", src_indices, page_size, stream),
             to = read_indices(check, "dst_indices", dst_indices, page_size, stream);
  check.that(from.size() == to.size(), "dst_indices", std::to_string(to.size()) + " tokens",
             std::to_string(from.size()) + ", as src_indices");
  const std::size_t layers = src_ptrs.size() / dst_ptrs.size();
  for (const bool only_check : {true, false}) {
    if (!only_check) enter(device);
    for (std::size_t i = 0; i < src_ptrs.size(); ++i)
      copy_pages(check, dst_ptrs[i / layers], src_ptrs[i], static_cast<std::int64_t>(i % layers), to, from,
                 "dst_indices", "src_indices", page_size, true, only_check, stream);
  }
}

}  // namespace musaic
