// Device frames of 2 MiB that stay resident: page tables move, pages do not come and go.
// Layer: platform, host.
// Giving a page back to the system and getting one again costs several times as much as copying it
// (docs/host.md has numbers), so a frame that a block leaves is moved aside, with UFFDIO_MOVE, and
// moved to the next block's address when that has been filled. Where the system has huge pages a
// frame is one, and a move takes a microsecond. Needs Linux 6.8; where it is missing, or a page
// cannot be moved (a child shares it, a device reads it), the caller does without.
// Not thread-safe, except for `place`.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/reservation.h"
#include "platform/host/userfault.h"

namespace spillway::host {

class FramePool {
 public:
  // At most `frames` at once in blocks' hands and here together. The descriptor must outlive it.
  // nullptr where frames cannot be moved.
  static std::unique_ptr<FramePool> create(const Userfault& userfault, std::size_t frames);
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() = default;

  // A resident frame that holds anything; nullptr if there is none left.
  void* take();
  // Of a frame that was taken and not placed.
  void give_back(void* frame);
  // The frame becomes the block's pages, writable; its own address is then empty, which `placed`
  // must be told. Wakes nobody. False if the system refuses: the frame is as before. Any thread's.
  [[nodiscard]] bool place(void* frame, void* block) const;
  void placed(void* frame);
  // The block's pages become a frame that can be taken. False if the system refuses: the pages are
  // where they were.
  [[nodiscard]] bool recover(void* block);
  // An empty place, to which pages may be moved; nullptr if there is none. It comes back as a frame
  // that was taken does: with give_back if it is one, or with placed.
  void* take_place();
  // Gives frames back to the system until at most `most` wait to be taken.
  void trim(std::size_t most);

 private:
  FramePool(const Userfault& userfault, Reservation addresses)
      : userfault_(&userfault), addresses_(std::move(addresses)) {}

  const Userfault* userfault_;
  Reservation addresses_;
  // Frames are born in places that the system fills at a touch, and come back to places that only
  // moves may fill.
  char* nursery_ = nullptr;
  char* nursery_end_ = nullptr;
  std::vector<void*> unborn_;  // empty places of the nursery
  std::vector<void*> empty_;   // ... of the others
  std::vector<void*> full_;    // frames to be taken
};

}  // namespace spillway::host
