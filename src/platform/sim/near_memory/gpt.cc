// Sizes and flops. See gpt.h.
#include "platform/sim/near_memory/gpt.h"

#include <array>
#include <numeric>

namespace spillway::sim::near_memory {
namespace {

// GPT-2's 50,257 tokens, padded by Megatron to a multiple of 128.
constexpr std::uint64_t kVocabulary = 50304;

// Adds a weight and its bias, as each module has them, and returns the weight's position.
std::size_t add_pair(Gpt& gpt, std::uint32_t layer, std::uint64_t weight, std::uint64_t bias) {
  gpt.tensors.push_back({layer, weight});
  gpt.tensors.push_back({layer, bias});
  return gpt.tensors.size() - 2;
}

void add_layer(Gpt& gpt, std::uint32_t layer) {
  const std::uint64_t h = gpt.shape.width;
  const double tokens = static_cast<double>(gpt.shape.batch) * gpt.shape.context;
  const auto product = [&](std::uint64_t elements) {
    return 2 * tokens * static_cast<double>(elements);
  };
  // Scores and their use: two products of context x context x width for each sequence.
  const double attention = 4 * tokens * gpt.shape.context * static_cast<double>(h);
  const std::size_t norm1 = add_pair(gpt, layer, h, h);
  const std::size_t qkv = add_pair(gpt, layer, 3 * h * h, 3 * h);
  const std::size_t dense = add_pair(gpt, layer, h * h, h);
  const std::size_t norm2 = add_pair(gpt, layer, h, h);
  const std::size_t up = add_pair(gpt, layer, 4 * h * h, 4 * h);
  const std::size_t down = add_pair(gpt, layer, 4 * h * h, h);
  gpt.operations.push_back({layer, {norm1, norm1 + 1, qkv, qkv + 1}, product(3 * h * h)});
  gpt.operations.push_back({layer, {dense, dense + 1}, product(h * h) + attention});
  gpt.operations.push_back({layer, {norm2, norm2 + 1, up, up + 1}, product(4 * h * h)});
  gpt.operations.push_back({layer, {down, down + 1}, product(4 * h * h)});
}

}  // namespace

std::span<const GptShape> paper_models() {
  static const std::array<GptShape, 5> kModels{{
      {"GPT-3 Large", 24, 1536, 16, 3, 1152},
      {"GPT-3 XL", 24, 2064, 24, 2, 1024},
      {"GPT-3 2.7B", 32, 2560, 32, 1, 1024},
      {"GPT-3 6.7B", 32, 4096, 32, 1, 1024},
      {"GPT-3 13B", 40, 5120, 40, 1, 512},
  }};
  return kModels;
}

std::uint64_t Gpt::parameters() const {
  return std::accumulate(
      tensors.begin(), tensors.end(), std::uint64_t{0},
      [](std::uint64_t sum, const ParameterTensor& tensor) { return sum + tensor.elements; });
}

Gpt make_gpt(const GptShape& shape) {
  Gpt gpt{.shape = shape, .tensors = {}, .operations = {}};
  const std::uint64_t h = shape.width;
  const std::uint64_t tokens = std::uint64_t{shape.batch} * shape.context;
  const std::size_t words = add_pair(gpt, 0, kVocabulary * h, shape.context * h);
  gpt.operations.push_back({0, {words, words + 1}, 0});
  for (std::uint32_t layer = 1; layer <= shape.layers; ++layer) {
    add_layer(gpt, layer);
  }
  const std::uint32_t last = shape.layers + 1;
  const std::size_t norm = add_pair(gpt, last, h, h);
  gpt.operations.push_back({last, {norm, norm + 1}, 0});
  // The output layer is the word embedding again; the embedding completes their common gradient.
  gpt.operations.push_back(
      {last, {words}, 2.0 * static_cast<double>(tokens * kVocabulary * h), false});
  // A layer in fp32, per token and unit of width 16 values and 2 bytes of masks, per head and pair
  // of tokens 2 values and 1 (Korthikanti et al., "Reducing activation recomputation", section 4.1,
  // in 4 bytes instead of 2); and the scores of the vocabulary with their gradient.
  gpt.activation_bytes =
      shape.layers * (66 * tokens * h + 9 * tokens * shape.context * shape.heads) +
      2 * sizeof(float) * tokens * kVocabulary;
  return gpt;
}

}  // namespace spillway::sim::near_memory
