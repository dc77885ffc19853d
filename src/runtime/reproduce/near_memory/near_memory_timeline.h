// Figure 4 of the near-memory paper: what the GPU, the transfers and the updates do in one training
// iteration. Layer: runtime.
#pragma once

#include <cstddef>
#include <string>

#include "platform/sim/near_memory/training.h"
#include "plot/figure.h"

namespace spillway::reproduce {

// A line a lane, each character the layer that is busiest then: 0 to 9, then a to z and A to Z,
// from the first layer on; '.' where nothing runs. A bar stands between the two passes.
[[nodiscard]] std::string timeline_text(const sim::near_memory::Iteration& iteration,
                                        std::size_t columns);

// A panel a lane; layers have colours in turn.
[[nodiscard]] plot::Figure timeline_figure(const sim::near_memory::Iteration& iteration,
                                           const std::string& title);

}  // namespace spillway::reproduce
