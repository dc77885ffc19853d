// The blocks that a launch names, in the order in which it names them, as often as it does.
// Layer: engine.
#pragma once

#include "engine/types.h"

namespace spillway {

// visit(BlockId, const Access&)
template <typename Visit>
void for_each_block(const Launch& launch, Visit visit) {
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      visit(access.first_block + i, access);
    }
  }
}

}  // namespace spillway
