// Small traces that tests of the trace layer share.
#pragma once

#include <vector>

#include "trace/generate.h"
#include "trace/trace.h"

namespace spillway {

// Weights, an input, an activation, a gradient and work space over three kernels, of page-sized
// tensors; worked by hand.
inline Trace tiny_trace() {
  Trace trace;
  trace.model = "tiny";
  trace.batch_size = 4;
  trace.device = "paper";
  trace.dtype = "float32";
  trace.tensors = {{.bytes = 8192, .persistent = true, .scratch = false},
                   {.bytes = 4096, .persistent = false, .scratch = false},
                   {.bytes = 12288, .persistent = false, .scratch = false},
                   {.bytes = 8192, .persistent = false, .scratch = false},
                   {.bytes = 40960, .persistent = false, .scratch = true}};
  trace.kernels = {{"forward", 1'500, 20'000, 30'001, {0, 1}, {2, 4}},
                   {"backward", 2'500'000, 0, 0, {1, 2}, {3}},
                   {"update", 999, 1, 2, {0, 3}, {0}}};
  return trace;
}

// The same, where the host waits after the second kernel.
inline Trace synchronizing_trace() {
  Trace trace = tiny_trace();
  trace.kernels[1].synchronizes = true;
  return trace;
}

inline MlpShape small_mlp() {
  MlpShape shape;
  shape.batch_size = 32;
  shape.inputs = 100;
  shape.width = 64;
  shape.layers = 2;
  shape.classes = 10;
  return shape;
}

inline CnnShape small_cnn() {
  CnnShape shape;
  shape.batch_size = 2;
  shape.image = 33;
  shape.channels = 8;
  shape.stages = 2;
  shape.blocks = 2;
  shape.classes = 10;
  return shape;
}

inline TransformerShape small_transformer() {
  TransformerShape shape;
  shape.batch_size = 2;
  shape.sequence = 16;
  shape.width = 32;
  shape.heads = 4;
  shape.layers = 2;
  shape.feed_forward = 128;
  shape.vocabulary = 100;
  return shape;
}

inline std::vector<Trace> generated_traces() {
  return {generate_mlp(small_mlp()), generate_cnn(small_cnn()),
          generate_transformer(small_transformer())};
}

}  // namespace spillway
