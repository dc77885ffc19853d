// See free_memory.h.
#include "interpose/cuda/memory/free_memory.h"

#include <algorithm>

namespace spillway::cuda {

Bytes told_free_bytes(const Session& session, Bytes used_bytes) {
  constexpr Bytes kLeastPart = 32;
  const auto left_of = [used_bytes](Bytes bytes) { return bytes - std::min(bytes, used_bytes); };
  const Bytes budget_bytes = session.platform->capacity_bytes(Tier::kDevice);
  const Bytes all_bytes = budget_bytes + session.platform->capacity_bytes(Tier::kHost) +
                          session.platform->capacity_bytes(Tier::kStorage);
  return std::max(left_of(budget_bytes), std::min(budget_bytes / kLeastPart, left_of(all_bytes)));
}

}  // namespace spillway::cuda
