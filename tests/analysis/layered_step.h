// A training step of equal layers, small enough to be worked out by hand.
#pragma once

#include "analysis/example_traces.h"

namespace spillway::test {

// Layer i has a weight of 16 bytes; "wide" makes 100 bytes of the 10 that lead in, "narrow" 10 of
// those. The backward pass of a layer reads what leads in, the 100, the gradient of what leads on
// and the weight, and makes the gradients of what leads in (10) and of the weight (16); then
// the optimizer. Kernels of the forward pass take 3 and 2 ns, those of the backward pass 10,
// others 1.
inline Trace layered_step(TensorId layers) {
  Trace t;
  const auto add = [&t](Bytes bytes, bool persistent = false) {
    t.tensors.push_back({bytes, persistent, false});
    return static_cast<TensorId>(t.tensors.size() - 1);
  };
  std::vector<TensorId> weights;
  std::vector<TensorId> inputs{add(10)};
  std::vector<TensorId> wides;
  for (TensorId i = 0; i < layers; ++i) {
    weights.push_back(add(16, true));
    wides.push_back(add(100));
    inputs.push_back(add(10));
    t.kernels.push_back(kernel("wide", 3, {weights[i], inputs[i]}, {wides[i]}));
    t.kernels.push_back(kernel("narrow", 2, {wides[i]}, {inputs[i + 1]}));
  }
  TensorId gradient = add(10);
  t.kernels.push_back(kernel("loss", 1, {inputs[layers]}, {gradient}));
  std::vector<TensorId> weight_gradients(layers);
  for (TensorId i = layers; i-- > 0;) {
    const TensorId next = add(10);
    weight_gradients[i] = add(16);
    t.kernels.push_back(kernel("backward", 10, {inputs[i], wides[i], weights[i], gradient},
                               {next, weight_gradients[i]}));
    gradient = next;
  }
  for (TensorId i = 0; i < layers; ++i) {
    t.kernels.push_back(kernel("update", 1, {weights[i], weight_gradients[i]}, {weights[i]}));
  }
  return t;
}

}  // namespace spillway::test
