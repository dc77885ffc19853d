// The allocations and frees that a memory snapshot remembers. Layer: trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "trace/import/held_blocks.h"
#include "trace/import/snapshot/pickle.h"

namespace spillway {

struct SnapshotEvent {
  BlockEvent block;           // `at` is the event's position, from 1
  std::uint64_t time_us = 0;  // not before that of the event before; 0 where unknown
  std::string name;           // "free", "allocate train.py:12 forward"
};

struct SnapshotHistory {
  std::int64_t device = 0;    // whose events these are: the one with the most
  std::uint64_t devices = 0;  // how many have events
  std::vector<SnapshotEvent> events;
  std::uint64_t last_time_us = 0;  // 0 where no event has a time
};

// At most kMaxKernels events. kInvalidInput with the place (device_traces[0][12]), no file name.
[[nodiscard]] Result<SnapshotHistory> read_snapshot_history(const Pickle& pickle);

}  // namespace spillway
