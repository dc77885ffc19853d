// Allocations of the program: made, freed, retired and used again. Layer: platform, cuda. An
// allocation is an address whose memory comes and goes. All functions are thread-safe, except where
// one says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/types.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/address_range.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class ProgramAllocations : public PlatformPart {
 public:
  ProgramAllocations(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // An address. Memory comes with the first use and holds anything. Fails with kUnsupported, naming
  // the budgets, if all tiers together have no room.
  Result<std::uint64_t> allocate(Bytes bytes);
  // Takes effect when every launch that was issued before and uses it has ended.
  void free(std::uint64_t address);
  // Takes an allocation back as if it had never been made, if nothing has been allocated or reused
  // since and no launch has used it: programs allocate all that is free for a moment to see how
  // much that is. False, and nothing happens, otherwise, and always for memory that shares a frame.
  bool undo_allocate(std::uint64_t address);
  // The contents die when the launches that use them have ended; the address stays, and `reuse`
  // comes before a launch names it again. Until then its memory may serve others. `next_on`: the
  // stream on which it will be reused; nullopt: any.
  void retire(std::uint64_t address, std::optional<CuStream> next_on);
  Status reuse(std::uint64_t address);
  // As retire, but the memory keeps its room in the budget, so `reuse` does not fail.
  void retire_keeping_room(std::uint64_t address, std::optional<CuStream> next_on);
  // True if the heap may recycle blocks on their stream without telling the platform: bypass mode
  // is on, and the budget has ample room for `bytes`, all that is alive then. Never blocks.
  [[nodiscard]] bool recycles_unannounced(Bytes bytes) const;
  // Above `bytes` of device memory the platform gives unused memory back to the device instead of
  // keeping it for the next allocation of that size. At first: the budget. Never blocks.
  void keep_at_most(Bytes bytes);

  // The allocation in which an address lies: its start and size; nullopt if it is none of ours, or
  // one that is retired.
  [[nodiscard]] std::optional<AddressRange> allocation_of(std::uint64_t address) const;
  // True as well for an allocation that is retired or hidden and may be used again.
  [[nodiscard]] bool may_be_again(std::uint64_t address) const;
  // What several words at once, most of which may be no addresses, can mean as pointers. `found`
  // has as many places.
  void pointed_at(std::span<const std::uint64_t> words, PointedAt* found) const;
  [[nodiscard]] bool contains(std::uint64_t address) const;
  // All addresses for which that is so.
  [[nodiscard]] AddressRange addresses() const;

  // --- For other parts

  // The newest allocation counts as having been alive from here on: it cannot be undone.
  void newest_stays() SPILLWAY_REQUIRES(platform_lock);
  // The same if it is among these.
  void newest_stays_if_among(std::span<const Access> accesses) SPILLWAY_REQUIRES(platform_lock);
  // As many unused handles as the heap and what the program places itself may have.
  void keep_handles();

 private:
  void retire(std::uint64_t address, std::optional<CuStream> next_on, bool keeps_room);

  std::atomic<Bytes> heap_keeps_bytes_{~Bytes{0}};  // as keep_at_most was told last
};

}  // namespace spillway::cuda
