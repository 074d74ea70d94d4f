// A llama's weights, where they lie in the mapped file, or on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "llm/config.h"
#include "llm/gguf.h"
#include "musaic/tensor.h"

namespace musaic::llm {

/// A matrix as the file stores it: quantised, never unpacked. `blocks` is uint8 [rows, bytes of a row].
struct Weight {
  Tensor blocks;
  int64_t type = 0;  ///< the file format's number, which the operators take
  int64_t rows = 0, cols = 0;
  Tensor bias;  ///< float32 [rows] in the memory of the host, or no tensor
};

struct Layer {
  Tensor attn_norm, ffn_norm;  ///< float32 [hidden_size]
  Weight q;                    ///< [q_size, hidden_size]
  Weight k, v;                 ///< [kv_size, hidden_size]
  Weight attn_out;             ///< [hidden_size, q_size]
  Weight gate, up;             ///< [intermediate_size, hidden_size]
  Weight gate_up;  ///< both as one matrix, where they lie back to back in the file; else no tensor
  Weight down;     ///< [hidden_size, intermediate_size]
};

/// A llama in a GGUF file. All weights are views of the mapped file, or of one copy of it on a device. Movable; const use
/// is thread-safe.
///
/// Query and key rows are stored in the order of interleaved rotary pairs (2 i, 2 i + 1), as the llama
/// architecture of the format has them.
class Model {
 public:
  /// Maps and checks the file. Throws musaic::Error naming file and tensor for a missing tensor, a wrong
  /// shape or a type that the products do not take, with the list of those that they take.
  static Model open(const std::string& path, Device device = {}) {
    return Model(GgufFile::open(path), device);
  }
  explicit Model(GgufFile file, Device device = {});

  Device device() const { return device_; }

  const GgufFile& file() const { return file_; }
  const Config& config() const { return config_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Weight& embedding() const { return embedding_; }  ///< [vocab_size, hidden_size]
  const Weight& output() const { return output_; }        ///< the same; the embedding where the file has none
  bool tied() const { return tied_; }
  bool has_biases() const { return has_biases_; }
  const Tensor& output_norm() const { return output_norm_; }                ///< float32 [hidden_size]
  const std::vector<float>& rope_stretch() const { return rope_stretch_; }  ///< see fill_rope_table

  /// Bytes of weights that one step reads, whatever the number of its rows.
  int64_t step_bytes() const { return step_bytes_; }
  /// Bytes of all weights.
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  Weight matrix(const std::string& name, int64_t rows, int64_t cols);
  Weight matrix_with_bias(const std::string& name, int64_t rows, int64_t cols);
  Tensor vector(const std::string& name, int64_t size);
  Layer layer(int64_t index);
  const void* place(const GgufTensor& tensor) const;

  GgufFile file_;
  Device device_;
  OwnedTensor memory_;  // uint8, the file's tensors from the first to the last; on a device alone
  const std::byte* begin_ = nullptr;  // of the first tensor in the file
  Config config_;
  std::vector<Layer> layers_;
  Weight embedding_, output_;
  Tensor output_norm_;
  std::vector<float> rope_stretch_;
  bool tied_ = false, has_biases_ = false;
  int64_t step_bytes_ = 0, weight_bytes_ = 0;
};

}  // namespace musaic::llm
