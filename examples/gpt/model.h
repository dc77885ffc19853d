// A GPT over bytes: pre-norm blocks, tied embeddings, AdamW. Layer: example.
// Every kernel is a launch that names its arrays; what a step has no more use for is discarded.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels.h"
#include "memory.h"

namespace gpt {

inline constexpr Index kBytes = 256;  // the vocabulary

struct Shape {
  Index layers = 4;
  Index width = 256;
  Index heads = 4;
  Index context = 128;
  Index batch = 4;
  [[nodiscard]] Index tokens() const { return batch * context; }
};

// Values, what a step finds out about them, and AdamW's two moments.
struct Parameter {
  Array values;
  Array gradient;
  Array first;
  Array second;
  bool decays = false;
};

class Model {
 public:
  // Weights are normal with this deviation.
  Model(Memory& memory, const Shape& shape, std::uint64_t seed, float deviation = 0.02F);

  // The mean loss in nats. tokens and targets: shape.tokens() bytes each, sequence after sequence.
  // Also fills in all gradients.
  [[nodiscard]] double run(std::span<const int> tokens, std::span<const int> targets);
  // One step of AdamW with the gradients, which are gone afterwards.
  void update(const AdamW& how);

  // For tests. In a fixed order.
  [[nodiscard]] std::vector<Parameter*> parameters();

 private:
  // The short vectors of a layer share an array, in this order; `width` of each.
  enum Vector : std::uint8_t {
    kNorm1Gain,
    kNorm1Bias,
    kProjectBias,
    kNorm2Gain,
    kNorm2Bias,
    kDownBias,
    kQkvBias,
    kUpBias = kQkvBias + 3,
    kVectors = kUpBias + 4
  };
  struct Layer {
    Parameter qkv, project, up, down, vectors;
    // What the forward pass leaves for the backward pass.
    Array in, norm1, statistics1, attended, probabilities, mixed, middle, norm2, statistics2,
        raised, bent;
  };

  [[nodiscard]] float* vector(Array& of, int which) const {
    return of.data() + which * shape_.width;
  }
  void forward(Layer& layer, Array& out);
  void backward(Layer& layer);
  void norm(const Array& in, Layer& layer, int gain, Array& out, Array& statistics);
  void norm_backward(const Array& in, Layer& layer, int gain, const Array& statistics);
  void linear_launch(Array& out, const Array& in, Layer& layer, Parameter& weights, int bias,
                     const Array* residual);
  void linear_backward_launch(Array& d_in, const Array& d_out, const Array& in, Layer& layer,
                              Parameter& weights, int bias);

  Memory* memory_;
  Shape shape_;
  int steps_ = 0;
  Parameter token_rows_, position_rows_, final_norm_;
  std::vector<Layer> layers_;
  Array out_, final_, final_statistics_, logits_;
  // Gradients: of the residual stream, and of what is computed beside it.
  Array d_stream_, d_narrow_, d_qkv_, d_wide_, scratch_;
};

}  // namespace gpt
