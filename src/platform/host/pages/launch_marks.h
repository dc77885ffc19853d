// What the program says of its launches without waiting: boundaries, and what is used, in the order
// in which it was said. Layer: platform, host. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/units.h"
#include "platform/common/kept_names.h"
#include "policy/prediction/launch_hash.h"

namespace spillway::host {

// A launch, or what the last one uses.
struct LaunchMark {
  LaunchHash hash;
  std::string_view name;    // stays valid
  std::string_view module;  // of the program, in which it was said; likewise
  BlockId first_block = 0;
  std::uint32_t block_count = 0;  // 0: a launch
  bool tells_all = false;         // of a launch
  bool writes = false;            // of a use
  // Of a launch, where an iteration is recorded.
  TimeNs at_ns = 0;
  TimeNs stalled_ns = 0;
};

class LaunchMarks {
 public:
  // By the thread that launches. How many wait to be taken now.
  std::size_t add_launch(const LaunchHash& hash, std::string_view name, bool tells_all,
                         TimeNs stalled_ns);
  void add_access(BlockId first_block, std::uint32_t block_count, bool writes);
  // All that wait, in exchange for a vector that may be used again; none while one is being added,
  // as a signal may have stopped who adds it.
  void take(std::vector<LaunchMark>& marks);

 private:
  Mutex mutex_;
  std::vector<LaunchMark> marks_ SPILLWAY_GUARDED_BY(mutex_);
  KeptNames names_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::host
