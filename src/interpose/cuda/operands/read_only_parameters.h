// Kernels whose code says what they only read: PyTorch's pointwise kernels. Layer: interpose, cuda.
// Their template has one array of pointers, to a value's place in each tensor: the first is the
// result's, and the only one that is written; the functor between gets values, not places (PyTorch,
// aten/src/ATen/native/cuda/CUDALoops.cuh and MemoryAccess.cuh). Those with several results have
// another name.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace spillway::cuda {

struct ReadOnlyParameters {
  std::size_t parameter = 0;  // the array; all of its pointers but the first are only read through
  std::size_t pointers = 0;   // in it
  // The functor is one of PyTorch's own: what it gives depends on the values that it gets, and on
  // what it holds.
  bool of_pytorch = false;
  static constexpr std::size_t kFunctor = 1;  // the parameter that it is
};

// Of the kernel that the compiler has given this name; nullopt: not known.
[[nodiscard]] std::optional<ReadOnlyParameters> known_reads(std::string_view symbol);

}  // namespace spillway::cuda
