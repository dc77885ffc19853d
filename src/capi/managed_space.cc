// See managed_space.h.
#include "capi/managed_space.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "platform/common/storage/block_span.h"

namespace spillway::capi {
namespace {

// Sums of sizes up to this cannot overflow.
constexpr std::size_t kMostBytes = 1024 * kTiB;

AccessMode mode_of(spillwayAccessMode_t mode) {
  switch (mode) {
    case spillwayAccessRead:
      return AccessMode::kRead;
    case spillwayAccessWrite:
      return AccessMode::kWrite;
    case spillwayAccessReadWrite:
      return AccessMode::kReadWrite;
    case spillwayAccessOverwrite:
      break;
  }
  return AccessMode::kOverwrite;
}

}  // namespace

Outcome<std::shared_ptr<ManagedSpace>> ManagedSpace::open(const SpaceOptions& options) {
  Result<std::unique_ptr<ProgramSpace>> space = ProgramSpace::open(options);
  if (!space) {
    return fail(space.error(), spillwayErrorNotSupported);
  }
  return std::shared_ptr<ManagedSpace>(new ManagedSpace(std::move(*space)));
}

bool ManagedSpace::close() {
  const MutexLock lock(mutex_);
  closed_ = launches_.empty();
  return closed_;
}

// --- Memory -------------------------------------------------------------------------------------

Outcome<void*> ManagedSpace::allocate(std::size_t bytes) {
  if (bytes > kMostBytes) {
    return fail(spillwayErrorMemoryAllocation, "out of memory: no space holds {} bytes", bytes);
  }
  const MutexLock lock(mutex_);
  const Result<void*> start = space_->platform().allocate(bytes);
  if (!start) {
    return fail(start.error(), spillwayErrorMemoryAllocation);
  }
  memories_.emplace(
      static_cast<const char*>(*start),
      Memory{.bytes = bytes,
             .launches = 0,
             .blocks = std::vector<BlockUse>((bytes + kBlockBytes - 1) / kBlockBytes)});
  return *start;
}

Outcome<void> ManagedSpace::free(void* start) {
  const MutexLock lock(mutex_);
  const auto memory = memories_.find(static_cast<const char*>(start));
  if (memory == memories_.end()) {
    return fail(spillwayErrorInvalidValue,
                "no allocation of this space starts at {}; has it been freed before?",
                fmt::ptr(start));
  }
  if (memory->second.launches > 0) {
    return fail(spillwayErrorBusy, "a launch uses the memory at {}; end it before freeing that",
                fmt::ptr(start));
  }
  memories_.erase(memory);
  space_->platform().free(start);
  return {};
}

Outcome<ManagedSpace::Memories::iterator> ManagedSpace::find(const void* start, std::size_t bytes) {
  const auto* const at = static_cast<const char*>(start);
  const auto after = memories_.upper_bound(at);
  if (after == memories_.begin()) {
    return fail(spillwayErrorInvalidValue, "{} is not memory of this space", fmt::ptr(start));
  }
  const auto memory = std::prev(after);
  const auto offset = static_cast<std::size_t>(at - memory->first);
  if (offset >= memory->second.bytes) {
    return fail(spillwayErrorInvalidValue, "{} is not memory of this space", fmt::ptr(start));
  }
  if (bytes == 0) {
    return fail(spillwayErrorInvalidValue, "0 bytes at {} are named; name at least one",
                fmt::ptr(start));
  }
  if (bytes > memory->second.bytes - offset) {
    return fail(spillwayErrorInvalidValue,
                "{} bytes at {} reach beyond the end of their allocation of {} bytes", bytes,
                fmt::ptr(start), memory->second.bytes);
  }
  return memory;
}

ManagedSpace::Use ManagedSpace::use_of(Memories::iterator memory, const void* start,
                                       std::size_t bytes) {
  const auto from = static_cast<std::size_t>(static_cast<const char*>(start) - memory->first);
  const BlockSpan span = blocks_with(from, bytes);
  return {.memory = memory,
          .blocks = std::span(memory->second.blocks).subspan(span.first, span.count)};
}

Outcome<void> ManagedSpace::prefetch(const void* start, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const Outcome<Memories::iterator> memory = find(start, bytes);
  if (!memory) {
    return tl::unexpected<Failure>(memory.error());
  }
  space_->platform().prefetch(const_cast<void*>(start), bytes);
  return {};
}

Outcome<void> ManagedSpace::pre_evict(const void* start, std::size_t bytes, Tier to) {
  const MutexLock lock(mutex_);
  const Outcome<Memories::iterator> memory = find(start, bytes);
  if (!memory) {
    return tl::unexpected<Failure>(memory.error());
  }
  if (space_->platform().capacity_bytes(to) == 0) {
    return fail(spillwayErrorNotSupported, "this space has no {} tier; give it one when it is made",
                name_of(to));
  }
  space_->platform().pre_evict(const_cast<void*>(start), bytes, to);
  return {};
}

Outcome<void> ManagedSpace::discard(const void* start, std::size_t bytes, DiscardMode mode) {
  const MutexLock lock(mutex_);
  const Outcome<Memories::iterator> found = find(start, bytes);
  if (!found) {
    return tl::unexpected<Failure>(found.error());
  }
  const Use use = use_of(*found, start, bytes);
  const auto busy =
      std::any_of(use.begin(), use.end(), [](const BlockUse& block) { return block.launches > 0; });
  if (busy) {
    return fail(spillwayErrorBusy, "a launch uses the memory at {}; end it before discarding that",
                fmt::ptr(start));
  }
  space_->platform().discard(const_cast<void*>(start), bytes, mode);
  return {};
}

// --- Launches -----------------------------------------------------------------------------------

Outcome<void> ManagedSpace::add_access(const spillwayAccess_t& access, std::size_t index,
                                       Launch& launch, std::vector<ProgramOperand>& operands) {
  const int mode = number_in(access.mode);
  if (mode < spillwayAccessRead || mode > spillwayAccessOverwrite) {
    return fail(spillwayErrorInvalidValue, "access {} of the launch: {} is no spillwayAccessMode_t",
                index, mode);
  }
  const Outcome<Memories::iterator> memory = find(access.ptr, access.count);
  if (!memory) {
    return fail(memory.error().code, "access {} of the launch: {}", index, memory.error().message);
  }
  operands.push_back({.start = const_cast<void*>(access.ptr),
                      .bytes = access.count,
                      .mode = mode_of(access.mode)});
  launch.uses.push_back(use_of(*memory, access.ptr, access.count));
  return {};
}

// The engine lets a launch wait until it fits beside the others. If those are this thread's, and
// of threads that wait as well, that is for ever.
Outcome<void> ManagedSpace::decide_holding(Launch& launch,
                                           std::span<const ProgramOperand> operands) {
  const LaunchFit fit = space_->platform().fit(operands);
  launch.holds = fit.state != LaunchState::kTooLarge;
  if (fit.state != LaunchState::kWaiting) {
    return {};
  }
  const auto has = [&](auto matches) SPILLWAY_REQUIRES(mutex_) {
    return std::any_of(launches_.begin(), launches_.end(),
                       [&](const auto& other) SPILLWAY_REQUIRES(mutex_) {
                         return other.second.holds && matches(other.second);
                       });
  };
  // A thread that waits itself ends nothing meanwhile.
  const auto goes_on = [&](const Launch& other) SPILLWAY_REQUIRES(mutex_) {
    return other.thread != launch.thread && other.id != kNoLaunch && !has([&](const Launch& one) {
             return one.thread == other.thread && one.id == kNoLaunch;
           });
  };
  const bool holds_some = has([&](const Launch& other) { return other.thread == launch.thread; });
  if (!holds_some || has(goes_on)) {
    return {};
  }
  return fail(spillwayErrorBusy,
              "the launch needs {} beside the {} that this thread's running launches hold, of {} "
              "of device memory; end one of them first",
              format_bytes(fit.more_bytes), format_bytes(fit.held_bytes),
              format_bytes(capacity_bytes(Tier::kDevice)));
}

// It may have to wait for launches that others end. Until it is in line nobody else decides: two
// threads that were told that there is room could each wait for what the other one holds. The
// platform calls back in between, where clang does not see that the lock is held.
LaunchId ManagedSpace::run(std::string_view name, std::span<const ProgramOperand> operands,
                           MutexLock<Mutex>& lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
  const LaunchId running = space_->platform().begin_launch(
      name, operands, [&lock]() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); });
  lock.lock();
  return running;
}

Outcome<spillwayLaunch_t> ManagedSpace::begin_launch(std::string_view name,
                                                     std::span<const spillwayAccess_t> accesses) {
  std::vector<ProgramOperand> operands;
  Launch launch;
  launch.thread = std::this_thread::get_id();
  MutexLock lock(mutex_);
  if (closed_) {
    return fail(spillwayErrorInvalidValue, "the space is being destroyed");
  }
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    if (const Outcome<void> added = add_access(accesses[i], i, launch, operands); !added) {
      return tl::unexpected<Failure>(added.error());
    }
  }
  if (const Outcome<void> decided = decide_holding(launch, operands); !decided) {
    return tl::unexpected<Failure>(decided.error());
  }
  const spillwayLaunch_t id = next_launch_++;
  const Launch& kept = launches_.emplace(id, std::move(launch)).first->second;
  for (const Use& use : kept.uses) {
    ++use.memory->second.launches;
    for (BlockUse& block : use) {
      ++block.launches;
    }
  }
  if (IterationCapture* const capture = space_->capture()) {
    capture->operands_told(false);
    capture->launched(name, false);
  }
  const LaunchId running = run(name, operands, lock);
  launches_.at(id).id = running;
  return id;
}

Outcome<void> ManagedSpace::end_launch(spillwayLaunch_t launch) {
  const MutexLock lock(mutex_);
  const auto found = launches_.find(launch);
  if (found == launches_.end() || found->second.id == kNoLaunch) {
    return fail(spillwayErrorInvalidValue,
                "no launch with the number {} runs in this space; has it ended before?", launch);
  }
  space_->platform().end_launch(found->second.id);
  for (const Use& use : found->second.uses) {
    --use.memory->second.launches;
    for (BlockUse& block : use) {
      --block.launches;
    }
  }
  launches_.erase(found);
  return {};
}

}  // namespace spillway::capi
