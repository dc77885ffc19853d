// Subtracting statistics. See stats.h.
#include "engine/stats.h"

namespace spillway {

EngineStats difference(const EngineStats& after, const EngineStats& before) {
  EngineStats result = after;
  for (std::size_t from = 0; from < kTierCount; ++from) {
    for (std::size_t to = 0; to < kTierCount; ++to) {
      result.moved_bytes[from][to] -= before.moved_bytes[from][to];
    }
  }
  result.saved_by_discard_bytes -= before.saved_by_discard_bytes;
  result.given_up_bytes -= before.given_up_bytes;
  result.host_mapped_bytes -= before.host_mapped_bytes;
  for (const auto field :
       {&EngineStats::launches, &EngineStats::updates, &EngineStats::faults,
        &EngineStats::late_prefetches, &EngineStats::prefetched, &EngineStats::prefetches_used,
        &EngineStats::prefetches_wasted, &EngineStats::evictions, &EngineStats::pre_evictions,
        &EngineStats::cancelled_evictions, &EngineStats::reclaimed_unused,
        &EngineStats::reclaimed_discarded, &EngineStats::recovered, &EngineStats::zeroed,
        &EngineStats::failed_transfers}) {
    result.*field -= before.*field;
  }
  return result;
}

}  // namespace spillway
