// See platform_engine.h.
#include "platform/common/platform_engine.h"

#include <array>
#include <cerrno>

namespace spillway {

bool report_failed(Engine& engine, TransferId transfer, Tier to, int error) {
  engine.transfer_failed(transfer);
  const bool full = error == ENOSPC && to == Tier::kStorage;
  if (full) {
    engine.set_capacity_below(Tier::kStorage, engine.used_bytes(Tier::kStorage));
  }
  return full;
}

ProgramStats stats_of(const Engine& engine, const Commitment& commitment,
                      const std::optional<StorageIo>& storage) {
  ProgramStats stats;
  stats.engine = engine.stats();
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    stats.used_bytes[index_of(tier)] = engine.used_bytes(tier);
  }
  stats.live_bytes = commitment.bytes();
  stats.live_peak_bytes = commitment.peak_bytes();
  stats.frames_peak_bytes = commitment.peak_bytes();
  if (storage) {
    const std::array<StorageIo::Meter, 2> meters = storage->meters();
    for (std::size_t i = 0; i < meters.size(); ++i) {
      stats.io_bytes[i] = meters[i].bytes;
      stats.io_busy_ns[i] = meters[i].busy_ns;
    }
  }
  return stats;
}

}  // namespace spillway
