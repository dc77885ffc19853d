// Allocations that this process was refused, because no tier had room for them: counted where the
// program is told, and part of its record. Layer: runtime. Thread-safe.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway {

struct Refused {
  std::uint64_t allocations = 0;
  Bytes largest_bytes = 0;
};

void note_refused(Bytes bytes);
[[nodiscard]] Refused refused_so_far();

}  // namespace spillway
