// What a kernel gets: where a range lies, and which of its forms is meant. Layer: optimizer.
#pragma once

#include "optimizer/numbers.h"

namespace spillway::optimizer {

// Pointers to the range's first elements; null for what there is not.
struct Range {
  const void* parameter = nullptr;
  const void* gradient = nullptr;
  const void* first = nullptr;
  const void* second = nullptr;
  const void* max_second = nullptr;
  void* parameter_out = nullptr;
  void* first_out = nullptr;
  void* second_out = nullptr;
  void* max_second_out = nullptr;
  void* gradient_out = nullptr;
  std::size_t count = 0;
};

using Kernel = void (*)(const Options& options, Form form, const Numbers& numbers,
                        const Range& range);

// A rule's kernel for this processor, or null where there is none.
[[nodiscard]] Kernel adam_kernel();
[[nodiscard]] Kernel sgd_kernel();
[[nodiscard]] Kernel adagrad_kernel();

}  // namespace spillway::optimizer
