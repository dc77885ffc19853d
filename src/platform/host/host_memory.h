// The program's memory on the host: what it allocates, discards and wishes for. Layer: platform,
// host. See ProgramPlatform for what the functions mean. With the platform's lock held.
#pragma once

#include <array>
#include <condition_variable>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "platform/common/process/commitment.h"
#include "platform/common/process/undisturbed_mutex.h"
#include "platform/common/program_platform.h"
#include "platform/host/faults/waiting_threads.h"
#include "platform/host/host_launches.h"
#include "platform/host/pages/address_space.h"
#include "platform/host/pages/device_pages.h"

namespace spillway::host {

class HostMemory {
 public:
  // All of them must outlive it.
  HostMemory(Engine& engine, const AddressSpace& addresses, DevicePages& pages,
             HostLaunches& launches, WaitingThreads& threads)
      : engine_(engine),
        addresses_(addresses),
        pages_(pages),
        launches_(launches),
        threads_(threads) {}

  Result<void*> allocate(Bytes bytes, Bytes most_bytes, ProgramPlatform::Fresh fresh);
  Status grow(void* start, Bytes bytes);
  void free(void* start);
  void retire(void* start);
  Status reuse(void* start);
  Status reuse_first(void* start, Bytes bytes);
  [[nodiscard]] bool addresses_had_better_repeat() const { return engine_.stats().evictions > 0; }
  [[nodiscard]] bool ready_for_reuse(const void* start, Bytes bytes) const;
  void provide(void* start);
  void discard(void* start, Bytes bytes, DiscardMode mode);
  // `mutex` is the platform's, and is let go while something of it moves; `moved` may be called
  // when something has.
  void clear(void* start, Bytes bytes, UndisturbedMutex& mutex, std::condition_variable& moved)
      SPILLWAY_REQUIRES(mutex);
  void give_up(void* start, Bytes bytes, UndisturbedMutex& mutex, std::condition_variable& moved)
      SPILLWAY_REQUIRES(mutex);
  void prefetch(void* start, Bytes bytes);
  void pre_evict(void* start, Bytes bytes, Tier to);
  [[nodiscard]] Bytes size_of(const void* start) const;
  [[nodiscard]] const Commitment& commitment() const { return commitment_; }
  // The most that all of what is alive has taken at once in frames: where a larger one that had
  // been retired is in use in part, that is more than was promised.
  [[nodiscard]] Bytes frames_peak_bytes() const { return frames_peak_bytes_; }
  // What the program has asked for, or taken of a larger one that had been retired.
  [[nodiscard]] Bytes bytes_in_use(AllocationId id) const {
    return in_part_.contains(id) ? used_bytes(id) : engine_.space().allocation(id).bytes;
  }

 private:
  [[nodiscard]] std::array<Bytes, kTierCount> capacity_bytes() const;
  [[nodiscard]] Bytes used_bytes(AllocationId id) const;
  [[nodiscard]] Bytes promised_bytes(AllocationId id) const;
  [[nodiscard]] Bytes frames_of(AllocationId id) const;
  void take_frames(Bytes bytes);
  [[nodiscard]] std::uint32_t blocks_in_use(AllocationId id) const;
  void clear(const BlockRange& range, UndisturbedMutex& mutex, std::condition_variable& moved)
      SPILLWAY_REQUIRES(mutex);

  Engine& engine_;
  const AddressSpace& addresses_;
  DevicePages& pages_;
  HostLaunches& launches_;
  WaitingThreads& threads_;
  Commitment commitment_;
  Bytes frames_bytes_ = 0;
  Bytes frames_peak_bytes_ = 0;
  std::vector<bool> retired_;                               // by allocation
  std::unordered_map<AllocationId, Bytes> room_bytes_;      // not in use
  std::unordered_set<AllocationId> in_part_;                // the rest of it is dead
  std::unordered_map<AllocationId, Bytes> given_up_bytes_;  // of blocks that nobody may use
};

}  // namespace spillway::host
