// A ProgramSpace that trusts nobody: it knows which memory and which launches are alive, so that
// every misuse is an error before it reaches the engine. Layer: capi. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "capi/failure.h"
#include "runtime/run/program_space.h"

namespace spillway::capi {

class ManagedSpace {
 public:
  static Outcome<std::shared_ptr<ManagedSpace>> open(const SpaceOptions& options);

  // The functions of the C API with the same names; spillway.h says what they do.
  Outcome<void*> allocate(std::size_t bytes);
  Outcome<void> free(void* start);
  Outcome<void> prefetch(const void* start, std::size_t bytes);
  Outcome<void> pre_evict(const void* start, std::size_t bytes, Tier to);
  Outcome<void> discard(const void* start, std::size_t bytes, DiscardMode mode);
  Outcome<spillwayLaunch_t> begin_launch(std::string_view name,
                                         std::span<const spillwayAccess_t> accesses);
  Outcome<void> end_launch(spillwayLaunch_t launch);
  void iteration_ended() { (void)space_->iteration_ended(); }
  void synchronize() { space_->platform().wait_until_idle(); }
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const {
    return space_->platform().capacity_bytes(tier);
  }
  [[nodiscard]] ProgramStats stats() const { return space_->platform().stats(); }

  // No launch runs, and none will begin: a space that is about to go. False if one runs.
  [[nodiscard]] bool close();

 private:
  // Of 2 MiB, the last one of what is left.
  struct BlockUse {
    std::uint32_t launches = 0;  // that run, or wait to, and name it; as often as they do
  };
  struct Memory {
    std::size_t bytes = 0;
    std::uint32_t launches = 0;  // that name some of it
    std::vector<BlockUse> blocks;
  };
  using Memories = std::map<const char*, Memory>;  // by start
  // The blocks of a memory in which some bytes lie.
  struct Use {
    Memories::iterator memory;
    std::span<BlockUse> blocks;
    [[nodiscard]] auto begin() const { return blocks.begin(); }
    [[nodiscard]] auto end() const { return blocks.end(); }
  };
  struct Launch {
    std::thread::id thread;
    bool holds = true;        // false: it runs on page faults
    std::vector<Use> uses;    // what it names
    LaunchId id = kNoLaunch;  // none until it runs
  };

  explicit ManagedSpace(std::unique_ptr<ProgramSpace> space) : space_(std::move(space)) {}

  Outcome<Memories::iterator> find(const void* start, std::size_t bytes) SPILLWAY_REQUIRES(mutex_);
  Outcome<void> add_access(const spillwayAccess_t& access, std::size_t index, Launch& launch,
                           std::vector<ProgramOperand>& operands) SPILLWAY_REQUIRES(mutex_);
  Outcome<void> decide_holding(Launch& launch, std::span<const ProgramOperand> operands)
      SPILLWAY_REQUIRES(mutex_);
  // Lets the lock go when the launch is in line, and takes it again when it runs.
  LaunchId run(std::string_view name, std::span<const ProgramOperand> operands,
               MutexLock<Mutex>& lock) SPILLWAY_REQUIRES(mutex_);
  static Use use_of(Memories::iterator memory, const void* start, std::size_t bytes);

  std::unique_ptr<ProgramSpace> space_;
  Mutex mutex_;
  Memories memories_ SPILLWAY_GUARDED_BY(mutex_);
  std::unordered_map<spillwayLaunch_t, Launch> launches_ SPILLWAY_GUARDED_BY(mutex_);
  spillwayLaunch_t next_launch_ SPILLWAY_GUARDED_BY(mutex_) = 1;
  bool closed_ SPILLWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway::capi
