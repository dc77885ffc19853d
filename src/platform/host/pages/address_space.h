// The addresses of the program's memory, and which allocation lies where. Layer: platform, host.
// A block's number says where it is: all blocks are of 2 MiB, and block n lies n times as far
// behind the base. What asks for allocations needs the platform's lock.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/space.h"
#include "engine/types.h"
#include "platform/common/process/reservation.h"

namespace spillway::host {

// Blocks of one allocation, which is alive.
struct BlockRange {
  AllocationId allocation = kNoAllocation;
  BlockId first = 0;
  std::uint32_t count = 0;
};

class AddressSpace {
 public:
  // The space must outlive it.
  AddressSpace(Reservation reservation, const Space& space)
      : reservation_(std::move(reservation)), bytes_(reservation_.bytes()), space_(&space) {}

  [[nodiscard]] char* base() const { return reservation_.start(); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  // In the child of a fork: what lies behind has not been inherited, and may be anybody's.
  void shrink(Bytes bytes) { bytes_ = bytes; }
  [[nodiscard]] bool contains(const void* address) const {
    return address >= base() && address < base() + bytes();
  }
  [[nodiscard]] std::uint64_t offset_of(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(address) - base());
  }
  [[nodiscard]] static std::uint64_t offset_of(BlockId id) { return id * kBlockBytes; }
  [[nodiscard]] char* address_of(BlockId id) const { return base() + offset_of(id); }

  // That starts there.
  [[nodiscard]] std::optional<AllocationId> allocation_at(const void* start) const;
  // In which these bytes lie; nullopt if they are not bytes of one allocation.
  [[nodiscard]] std::optional<BlockRange> blocks_with(const void* start, Bytes bytes) const;
  // Of those, the ones without other bytes. There may be none.
  [[nodiscard]] std::optional<BlockRange> blocks_within(const void* start, Bytes bytes) const;
  // What the allocation's blocks take.
  [[nodiscard]] Bytes footprint_bytes(AllocationId id) const;

 private:
  [[nodiscard]] std::optional<AllocationId> owner_of(const void* address) const;

  Reservation reservation_;
  Bytes bytes_;
  const Space* space_;
};

}  // namespace spillway::host
