// Where an update runs, by the bytes that cross the link alone: for who has no UpdateBalance.
// Layer: policy. docs/near-memory.md, "Where an update runs".
#pragma once

#include "policy/update_balance.h"

namespace spillway {

[[nodiscard]] inline bool pays_at_host(const Launch& launch, const Space& space) {
  return moves_less_at_host(works_of(launch, space));
}

}  // namespace spillway
