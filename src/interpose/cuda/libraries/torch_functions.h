// Functions of PyTorch's libraries, found where its allocator is. Layer: interpose, cuda.
#pragma once

#include <atomic>

#include "interpose/cuda/libraries/library_functions.h"

namespace spillway::cuda {

// A place in the library of PyTorch's allocator, from the first tensor that it had of our memory
// on.
inline std::atomic<const void*> torch_caller{nullptr};

// nullptr: this version has none of that name.
template <typename Function>
Function torch_function(const char* name, const void* caller) {
  return reinterpret_cast<Function>(without_us(name, nullptr, caller));
}

}  // namespace spillway::cuda
