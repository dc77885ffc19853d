// Names of things that several layers speak of. Ground floor.
#pragma once

#include <cstdint>
#include <limits>

namespace spillway {

// A block of the space (up to kBlockBytes). Dense from 0, so a vector can be indexed by it.
using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();

// What makes two launches "the same kernel again" (DeepUM section 3.1). Dense from 0.
using ExecutionId = std::uint32_t;
inline constexpr ExecutionId kNoExecution = std::numeric_limits<ExecutionId>::max();

}  // namespace spillway
