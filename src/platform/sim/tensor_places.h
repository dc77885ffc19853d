// Where the tensors of a program lie: which of them share memory because they never live at once.
// Layer: platform, simulator.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/units.h"
#include "trace/perturb.h"
#include "trace/trace.h"

namespace spillway::sim {

using PlaceId = std::uint32_t;
inline constexpr PlaceId kNoPlace = std::numeric_limits<PlaceId>::max();

// One allocation, which the program makes once and keeps.
struct Place {
  TensorId tensor = 0;  // the first that lies there
  Bytes bytes = 0;
};

struct TensorPlaces {
  std::vector<Place> places;
  // By graph and TensorId; kNoPlace where the graph does not use the tensor. A persistent one has
  // the same place in all graphs.
  std::vector<std::vector<PlaceId>> of;
  Bytes peak_bytes = 0;  // of the places that are in use at once, at the highest
};

// A place for each tensor that some graph uses, in the order of their numbers.
[[nodiscard]] TensorPlaces places_of_their_own(const Program& program);

// As an allocator has it that keeps what is freed for the next tensor of its size (DeviceHeap): the
// place of one that dies goes to the next of its size that is born, the lowest place first. Sizes
// are rounded up to whole frames, those below a frame to 512 bytes; where all does not fit the
// budget also to sizes that are near, as they are known after a few iterations (near_sizes.h). The
// places are the same in every iteration, for at its end nothing is in use but what is persistent.
[[nodiscard]] TensorPlaces handed_on_places(const Program& program, Bytes frame_bytes,
                                            Bytes budget_bytes);

}  // namespace spillway::sim
