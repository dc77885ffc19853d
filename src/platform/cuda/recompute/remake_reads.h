// What remakes that are still on their streams read, where the result that they were to make has
// died. Layer: platform, cuda.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/types.h"
#include "platform/cuda/stream/device_launches.h"

namespace spillway::cuda {

// Bytes that a launch only read.
struct RemakeSource {
  AllocationId id = kNoAllocation;
  Bytes from_bytes = 0;
  Bytes to_bytes = 0;

  // Whether the access uses some of them.
  [[nodiscard]] bool is_of(const Access& access) const {
    return id == access.allocation &&
           (access.to_bytes == 0 || (access.from_bytes < to_bytes && from_bytes < access.to_bytes));
  }
};

class RemakeReads {
 public:
  explicit RemakeReads(const DeviceLaunches& launches) : launches_(launches) {}

  // The launch with this number reads them.
  void add(std::span<const RemakeSource> sources, StreamId stream, std::uint64_t number) {
    for (const RemakeSource& source : sources) {
      reads_.push_back({.source = source, .stream = stream, .number = number});
    }
  }
  // Whether a remake on another stream that has not ended reads some of this. Who has the memory
  // next has its number, and asks when it writes.
  [[nodiscard]] bool are_elsewhere(const Access& access, StreamId stream) const {
    return std::any_of(reads_.begin(), reads_.end(), [&](const Read& it) {
      return it.source.is_of(access) && it.stream != stream && !has_ended(it);
    });
  }
  void forget_ended() {
    std::erase_if(reads_, [this](const Read& it) { return has_ended(it); });
  }
  [[nodiscard]] bool empty() const { return reads_.empty(); }

 private:
  struct Read {
    RemakeSource source;
    StreamId stream = 0;
    std::uint64_t number = 0;
  };
  [[nodiscard]] bool has_ended(const Read& read) const {
    return launches_.stream(read.stream).ended >= read.number;
  }

  const DeviceLaunches& launches_;
  std::vector<Read> reads_;
};

}  // namespace spillway::cuda
