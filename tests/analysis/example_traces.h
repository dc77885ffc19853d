// Small traces whose facts are worked out by hand, shared by the analysis tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "trace/trace.h"

namespace spillway::test {

inline Kernel kernel(std::string name, TimeNs duration_ns, std::vector<TensorId> reads,
                     std::vector<TensorId> writes) {
  Kernel made;
  made.name = std::move(name);
  made.duration_ns = duration_ns;
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  return made;
}

// A residual block after G10 figure 6: two convolutions, the input added to their output, the
// backward pass and the weight updates. Kernel k starts at: 0, 10, 30, 35, 43, 48, 88, 108, 111;
// the iteration ends at 114.
struct ResidualBlock {
  enum Id : TensorId { W1, W2, A0, A1, A2, A3, dA3, dA2, dA1, dA0, dW1, dW2, kWork, kUnused };
  static Trace trace() {
    Trace t;
    t.model = "residual";
    t.batch_size = 4;
    t.tensors = {
        {100, true, false},  // W1
        {200, true, false},  // W2
        {1000, false, false}, {1100, false, false}, {1200, false, false}, {1300, false, false},
        {1300, false, false}, {1200, false, false}, {1100, false, false}, {1000, false, false},
        {100, false, false},  {200, false, false},  {5000, false, true},  // work space of Conv2(B)
        {70, true, false},  // a weight that no kernel uses
    };
    t.kernels = {
        kernel("Conv1(F)", 10, {A0, W1}, {A1}),
        kernel("Conv2(F)", 20, {A1, W2}, {A2}),
        kernel("Add(F)", 5, {A2, A0}, {A3}),
        kernel("Loss", 8, {A3}, {dA3}),
        kernel("Add(B)", 5, {dA3}, {dA2}),
        kernel("Conv2(B)", 40, {dA2, W2, A1}, {dW2, dA1, kWork}),
        kernel("Conv1(B)", 20, {dA1, W1, A0, dA3}, {dW1, dA0}),
        kernel("SGD1", 3, {W1, dW1}, {W1}),
        kernel("SGD2", 3, {W2, dW2}, {W2}),
    };
    return t;
  }
};

// Any valid trace, the same for the same seed: up to 40 tensors of up to 64 KiB and 60 kernels.
inline Trace random_trace(std::uint64_t seed) {
  Rng rng(seed);
  Trace t;
  const std::uint64_t tensors = 1 + rng.below(40);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    t.tensors.push_back({1 + rng.below(16 * kPageBytes), rng.chance(0.3), false});
  }
  const std::uint64_t kernels = 1 + rng.below(60);
  for (std::uint64_t i = 0; i < kernels; ++i) {
    Kernel made = kernel(fmt::format("k{}", i), static_cast<TimeNs>(1 + rng.below(1000)), {}, {});
    for (TensorId id = 0; id < tensors; ++id) {
      if (rng.chance(0.08)) made.reads.push_back(id);
      if (rng.chance(0.05)) made.writes.push_back(id);
    }
    t.kernels.push_back(std::move(made));
  }
  return t;
}

// Whether a kernel uses a tensor, said as plainly as possible.
inline bool uses(const Kernel& kernel, TensorId tensor) {
  for (const TensorId id : kernel.reads) {
    if (id == tensor) return true;
  }
  for (const TensorId id : kernel.writes) {
    if (id == tensor) return true;
  }
  return false;
}

}  // namespace spillway::test
