// Addresses that the program reserves, to place memory there itself. Layer: platform, cuda. Sizes,
// addresses and alignments (a power of two) are multiples of 2 MiB. All functions are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/types.h"
#include "platform/cuda/memory/address_range.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class PlacedMemory : public PlatformPart {
 public:
  PlacedMemory(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // A run of addresses at which nothing lies, of which nothing else is the neighbour; nullopt:
  // there is none left. Costs the same however large it is.
  [[nodiscard]] std::optional<std::uint64_t> reserve(Bytes bytes, Bytes alignment);
  // Nothing that the program can use lies there; what is hidden there stays.
  void give_back_reserved(std::uint64_t start);
  // That there is room for as much memory, as for an allocation; it counts as alive from now on.
  // Fails as ProgramAllocations::allocate does.
  Status promise(Bytes bytes);
  void take_back_promise(Bytes bytes);
  // As allocate, of promised memory, at reserved addresses where nothing lies; `free` ends it, and
  // the promise. Waits for what lay there before and has been freed.
  Status allocate_at(std::uint64_t address, Bytes bytes);
  // The same for memory that is not ours.
  void wait_until_free(std::uint64_t address, Bytes bytes);
  // The allocation that begins there keeps what it holds, and is none for all that names addresses,
  // until it is shown again.
  void hide(std::uint64_t address);
  void show(std::uint64_t address);
  // One that is hidden lies at other reserved addresses from now on, or (nullopt) anywhere that
  // nobody has reserved; where, is the answer. Waits for the launches that use it, and for what lay
  // there before.
  Result<std::uint64_t> move(std::uint64_t address, std::optional<std::uint64_t> to);
  // Whether anything was ever reserved. Waits for nobody.
  [[nodiscard]] bool has_reserved() const;
  // All allocations that have some of these bytes, lowest first. Beyond the first only in addresses
  // that are reserved together.
  [[nodiscard]] std::vector<AddressRange> allocations_in(std::uint64_t address, Bytes bytes) const;
  // The allocation in which a reserved address lies, and those that lie side by side with it,
  // without a gap; `among`: of those that have some of these bytes, of which the address is one.
  // Empty where nothing is reserved, or nothing lies there.
  [[nodiscard]] std::vector<AddressRange> allocations_beside(std::uint64_t address,
                                                             const AddressRange& among) const;
  [[nodiscard]] std::vector<AddressRange> all_beside(std::uint64_t address) const;

 private:
  [[nodiscard]] bool is_at_rest(AllocationId id) const SPILLWAY_REQUIRES(platform_lock);
};

}  // namespace spillway::cuda
