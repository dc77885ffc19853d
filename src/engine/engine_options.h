// What an engine is told once. Layer: engine.
#pragma once

#include <cstdint>

#include "engine/types.h"

namespace spillway {

// Which copies below are kept when a block comes to the device, as long as it is not written and
// there is room for them: a block that has one need not be copied when it leaves.
enum class CleanCopies : std::uint8_t {
  kNone,
  kStorage,  // those in storage
  kAll,
};

struct EngineOptions {
  Bytes device_capacity_bytes = 0;
  Bytes host_capacity_bytes = 0;
  Bytes storage_capacity_bytes = 0;
  Bytes device_frame_bytes = kPageBytes;
  // Size of one transfer batch, and how many may be on their way in one lane at once.
  // Evictions go in smaller batches, so that the first frames are free soon.
  Bytes host_batch_bytes = 16 * kMiB;
  Bytes storage_batch_bytes = 8 * kMiB;
  Bytes eviction_batch_bytes = 4 * kMiB;
  std::uint32_t batches_in_flight = 2;
  // Faults go one batch at a time, as the driver's fault loop does (DeepUM figure 3). Room for the
  // next one is made no earlier, so that copies in and copies out then take turns.
  std::uint32_t fault_batches_in_flight = 1;
  // How far ahead of the fetches that wait room is made.
  Bytes room_ahead_bytes = 64 * kMiB;
  // Dead frames go to a queue of their own and are reclaimed before any used one (UVM Discard
  // section 5.5). If not, they keep their place in the used queue, and are dropped instead of moved
  // when their turn comes (DeepUM section 5.2).
  bool reclaim_discarded_first = true;
  // The device's capacity is a limit, not a target. Once as much is in use as was ever alive there
  // at once, and a little more, frames of dead memory are taken before free ones; and until
  // something alive has had to leave for a fault, no policy's wish sends anything away or sets
  // frames aside for dead memory. With reclaim_discarded_first.
  bool frugal = false;
  // A frame is of one block's size, and to make one of another size costs the platform more: of
  // dead frames the one that suits is taken (Mechanism::holds_frame_of), not the oldest.
  bool frames_have_sizes = false;
  // Without tracks_writes, launches' access modes say what is written.
  CleanCopies clean_copies = CleanCopies::kNone;
  // The platform stops the first write to a block that was mapped without being writable and
  // reports it as a thread's fault. All clean copies are then kept.
  bool tracks_writes = false;
  // A launch is released when everything that it needs is on its way, with the transfers that it
  // must wait for, instead of when everything is there: for devices that can wait by themselves.
  // Not with tracks_writes.
  bool release_early = false;
  // The platform cannot withdraw an update: one is refused when it is issued, unless host memory
  // has room for all that it has elsewhere. That room is kept for it.
  bool updates_are_certain = false;
  // What the platform allows; a policy may narrow it (Policy::window).
  LaunchWindow window = {};
  // Transfers that fail in a row before the engine gives up.
  std::uint32_t failures_in_a_row_max = 16;
};

}  // namespace spillway
