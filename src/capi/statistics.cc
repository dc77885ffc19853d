// See statistics.h.
#include "capi/statistics.h"

namespace spillway::capi {

spillwayStatistics_t statistics_of(const ManagedSpace& space) {
  const ProgramStats stats = space.stats();
  const EngineStats& engine = stats.engine;
  spillwayStatistics_t values{};
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    values.capacityBytes[index_of(tier)] = space.capacity_bytes(tier);
    values.usedBytes[index_of(tier)] = stats.used_bytes[index_of(tier)];
    for (const Tier to : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      values.movedBytes[index_of(tier)][index_of(to)] = engine.moved(tier, to);
    }
  }
  values.allocatedBytes = stats.live_bytes;
  values.allocatedPeakBytes = stats.live_peak_bytes;
  values.savedByDiscardBytes = engine.saved_by_discard_bytes;
  values.launches = engine.launches;
  values.pageFaults = stats.page_faults;
  values.writeFaults = stats.write_faults;
  values.evictions = engine.evictions;
  values.preEvictions = engine.pre_evictions;
  values.prefetchedBlocks = engine.prefetched;
  values.prefetchesUsed = engine.prefetches_used;
  values.prefetchesWasted = engine.prefetches_wasted;
  values.stalledNs = static_cast<std::uint64_t>(stats.stalled_ns);
  values.faultWaitNs = static_cast<std::uint64_t>(stats.fault_wait_ns);
  values.copyNs = static_cast<std::uint64_t>(stats.copy_ns);
  values.processorNs = static_cast<std::uint64_t>(stats.processor_ns);
  return values;
}

}  // namespace spillway::capi
