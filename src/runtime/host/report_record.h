// A session's record as the report reads it back: the file that run_record.h writes, as numbers.
// Layer: runtime.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/host/run_record.h"

namespace spillway {

struct SessionWait {
  std::string name;
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  double wait_s = 0;
  double host_s = 0;
  double storage_s = 0;
  double fresh_s = 0;
};

struct SessionRecord {
  std::string command;
  std::int64_t pid = 0;
  std::string policy;
  double elapsed_s = 0;
  double stalled_s = 0;
  std::array<Bytes, kTierCount> budget_bytes{};
  Bytes peak_bytes = 0;
  Bytes saved_by_discard_bytes = 0;
  std::array<std::array<Bytes, kTierCount>, kTierCount> moved_bytes{};
  std::uint64_t page_faults = 0;
  std::uint64_t write_faults = 0;
  std::uint64_t launches = 0;
  std::uint64_t prefetched_blocks = 0;
  std::uint64_t prefetches_late = 0;
  std::uint64_t prefetches_used = 0;
  std::uint64_t prefetches_wasted = 0;
  std::uint64_t evictions = 0;
  std::vector<SessionWait> longest_waits;
  // As sampled, and the end of the run as one sample more; empty if none was taken.
  std::vector<RunSample> timeline;

  [[nodiscard]] Bytes moved(Tier from, Tier to) const {
    return moved_bytes[index_of(from)][index_of(to)];
  }
  [[nodiscard]] Bytes written_to_storage() const {
    return moved(Tier::kDevice, Tier::kStorage) + moved(Tier::kHost, Tier::kStorage);
  }
};

// A field that is missing or of another type reads as nothing; what is no record at all, or one of
// another version, is nullopt.
[[nodiscard]] std::optional<SessionRecord> parse_session_record(const std::string& json);

}  // namespace spillway
