// Memory that other processes, or other devices of the program, use. Layer: platform, cuda.
// docs/interposer.md. All functions are thread-safe, except where one says otherwise.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "engine/types.h"
#include "platform/common/process/descriptor.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/exports.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

// One of the pieces of exported memory, in the order of its addresses.
struct ExportedPiece {
  Descriptor memory;
  Bytes bytes = 0;
  Bytes all_bytes = 0;     // of all pieces
  Bytes offset_bytes = 0;  // of the allocation in the first of them
};

class ExportedMemory : public PlatformPart {
 public:
  ExportedMemory(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // Whether the device lets other processes have memory, by file descriptors.
  [[nodiscard]] bool is_possible() const;
  // The number by which other processes know an allocation, which no other ever gets; nullopt if it
  // has not been exported. Of the one that begins there, as below.
  [[nodiscard]] std::optional<std::uint64_t> exported(std::uint64_t address) const;
  // Fails with kUnsupported, and a line for people, if the budget has no room for it to stay. Waits
  // for the end of what has been freed, if that may make room.
  Status may_export(std::uint64_t address);
  // Between begin_bypassed and end_bypassed, or before_launch and after_launch, of a call that
  // needs mapping and uses all of it. It stays on the device from now on, until it is freed, and
  // counts as changed at any time. Gives its number. Fails as above.
  Result<std::uint64_t> export_memory(std::uint64_t address);
  // Fails if the memory has been freed.
  Result<ExportedPiece> exported_piece(std::uint64_t number, std::uint32_t piece);
  // Another device of the program, which can, uses this memory from now on. Waits until it may.
  void share_with(CuDevice device);

  // --- For other parts

  [[nodiscard]] bool contains(AllocationId id) const SPILLWAY_REQUIRES(platform_lock) {
    return exports_.contains(id);
  }
  // The allocation dies: waits until no piece of it is being handed out. Lets go.
  void end_export(AllocationId id) SPILLWAY_REQUIRES(platform_lock);
  // The driver thread has let other devices use the memory, so many times.
  void shared(std::uint64_t times) SPILLWAY_REQUIRES(platform_lock) { shares_done_ += times; }

 private:
  [[nodiscard]] Bytes unfixed_bytes_of(AllocationId id) const SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] Status room_to_export(AllocationId id) const SPILLWAY_REQUIRES(platform_lock);

  Exports exports_ SPILLWAY_GUARDED_BY(platform_lock);
  // With other devices, that have been ordered.
  std::uint64_t shares_ SPILLWAY_GUARDED_BY(platform_lock) = 0;
  std::uint64_t shares_done_ SPILLWAY_GUARDED_BY(platform_lock) = 0;  // and carried out
};

}  // namespace spillway::cuda
