// Updates of tensors that lie in a space whose program runs under `spillway run`: where fewer bytes
// move if the update goes to its states than the other way round, it runs on them in host memory.
// Layer: near.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "near/blocks.h"
#include "near/near.h"

namespace spillway::near {

// Calls `run` with what is updated in host memory, a part of a tensor at a time, while the next one
// is on its way there. Returns what is to be updated where it is: all of it where there is no
// space. `element_bytes`: of parameters and states, and of gradients.
[[nodiscard]] std::vector<Range> run_at_host(
    std::span<const spillway_near_tensor> tensors, std::uint64_t element_bytes,
    std::uint64_t gradient_bytes, const std::function<void(std::span<const Range>)>& run);

}  // namespace spillway::near
