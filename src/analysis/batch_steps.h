// The step with any batch size, from recordings of it with two. Layer: analysis.
//
// As in batch_memory.h a tensor's size is a line over the batch, and so is a kernel's time.
#pragma once

#include <cstdint>

#include "analysis/batch_memory.h"
#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

class BatchSteps {
 public:
  // Both traces must be valid and the batches differ. Fails with kUnsupported where the two steps
  // are not the same kernels in the same order with the same tensors.
  [[nodiscard]] static Result<BatchSteps> between(const BatchMemory::Recording& one,
                                                  const BatchMemory::Recording& other);

  // A valid trace. Sizes and times are at least 1.
  [[nodiscard]] Trace at(std::uint64_t batch) const;

 private:
  Trace one_;
  Trace other_;
  double one_batch_ = 0;
  double apart_ = 0;
};

}  // namespace spillway
