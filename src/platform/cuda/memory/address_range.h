// Runs of the program's addresses. Layer: platform, cuda.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway::cuda {

struct AddressRange {
  std::uint64_t start = 0;
  Bytes bytes = 0;
};

// What a word, which may be no address, can mean as a pointer: the allocation in which it lies, and
// the one that ends right before it (the end of an array). 0 bytes where there is none.
struct PointedAt {
  AddressRange in;
  AddressRange ends;
};

}  // namespace spillway::cuda
