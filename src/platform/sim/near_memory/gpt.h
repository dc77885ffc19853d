// The GPT models of the near-memory paper's table 4, as Megatron trains them: parameter tensors in
// the order in which they are made, and the GPU's work. Layer: platform, simulator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace spillway::sim::near_memory {

struct GptShape {
  std::string name;
  std::uint32_t layers = 0;
  std::uint32_t width = 0;
  std::uint32_t heads = 0;
  std::uint32_t batch = 0;
  std::uint32_t context = 0;
};

// Table 4.
[[nodiscard]] std::span<const GptShape> paper_models();

struct ParameterTensor {
  std::uint32_t layer = 0;  // 0: embeddings; then the decoder layers; then the last normalization
  std::uint64_t elements = 0;

  [[nodiscard]] Bytes bytes() const { return elements * sizeof(float); }
};

// What the GPU does between two tensors' arrival: a part of a layer.
struct Operation {
  std::uint32_t layer = 0;
  std::vector<std::size_t> tensors;  // that it reads, by position in Gpt::tensors
  double forward_flop = 0;           // the backward pass has twice as many
  bool gradients = true;  // whether its backward pass completes the gradients of its tensors
};

struct Gpt {
  GptShape shape;
  std::vector<ParameterTensor> tensors;
  std::vector<Operation> operations;  // of the forward pass
  Bytes activation_bytes = 0;         // kept on the GPU from the forward pass to the backward pass

  [[nodiscard]] std::uint64_t parameters() const;
};

[[nodiscard]] Gpt make_gpt(const GptShape& shape);

}  // namespace spillway::sim::near_memory
