// How the memory of a step grows with its batch, from recordings of it with two batch sizes.
// Layer: analysis.
//
// A tensor's size is a constant or in proportion to the batch, up to rounding, so what is alive
// during a kernel is a line over the batch, and two recordings give each kernel's. The peak is the
// highest of these lines. This leaves out that libraries choose other kernels and workspaces for
// other shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

class BatchMemory {
 public:
  struct Recording {
    const Trace& trace;
    std::uint64_t batch = 0;  // at least 1
  };
  // Sizes count as rounded up to a multiple of `granularity_bytes`. Both traces must be valid and
  // the batches differ. Fails with kUnsupported where the two steps are not the same kernels in the
  // same order.
  [[nodiscard]] static Result<BatchMemory> between(const Recording& one, const Recording& other,
                                                   Bytes granularity_bytes);

  // What is alive at once at the highest, with a batch of so many.
  [[nodiscard]] Bytes peak_bytes(std::uint64_t batch) const;

 private:
  struct Line {
    double at_none_bytes = 0;  // with an empty batch; may be negative
    double each_bytes = 0;
  };
  std::vector<Line> kernels_;
};

}  // namespace spillway
