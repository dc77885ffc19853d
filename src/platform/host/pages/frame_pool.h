// Device frames of 2 MiB, and parts of them, that stay resident: page tables move, pages do not
// come and go. Layer: platform, host. Giving a page back to the system and getting one again costs
// several times as much as copying it (docs/host.md has numbers), so a frame that a block leaves is
// moved aside, with UFFDIO_MOVE, and moved to the next block's address when that has been filled.
// Where the system has huge pages a frame is one, and a move takes a microsecond. Needs Linux 6.8;
// where it is missing, or a page cannot be moved (a child shares it, a device reads it), the caller
// does without. A block that is smaller leaves a part of a frame; it takes parts, or cuts a frame.
// Not thread-safe, except for `take_pages`.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/process/reservation.h"
#include "platform/host/faults/userfault.h"

namespace spillway::host {

class FramePool {
 public:
  // At most `frames` at once in blocks' hands and here together. The descriptor must outlive it.
  // nullptr where frames cannot be moved.
  static std::unique_ptr<FramePool> create(const Userfault& userfault, std::size_t frames);
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() = default;

  // Parts that wait at once; each takes a place.
  static constexpr std::size_t kMostParts = 16;

  // A resident frame that holds anything; nullptr if there is none left.
  void* take();
  // Of a frame that was taken and not placed.
  void give_back(void* frame);
  // A place is empty, as what was there has been moved or given up.
  void placed(void* place);
  // Gives what is at a place, so many bytes at most, back to the system; it is empty then.
  void empty(void* place, Bytes bytes = kBlockBytes);
  // Pages of parts, and of frames that wait, become the block's, writable, from its beginning on:
  // returns how many bytes. `zeroed`: they hold zeros then, else anything. Wakes nobody.
  Bytes place_parts(char* block, Bytes bytes, bool zeroed);
  // Whether a block should rather be made of parts than take a frame: none waits, and of the parts
  // there are enough for most of it.
  [[nodiscard]] bool parts_do() const { return full_.empty() && parts_bytes_ >= kBlockBytes / 2; }
  // The block's pages, which may be protected, become a frame that can be taken, or a part. False
  // if the system refuses, or there is no place: then some of them may be gone, and the rest is
  // there.
  [[nodiscard]] bool recover(char* block, Bytes bytes = kBlockBytes);
  // Of a place that was taken: so many bytes there are a part from now on.
  void give_back_part(void* place, Bytes bytes);
  // An empty place, to which pages may be moved; nullptr if there is none. It comes back as a frame
  // that was taken does: with give_back if it is one, or with placed.
  void* take_place();
  // The block's pages, which may be protected, are those at the place from now on, and can be
  // written there. An error number; then they are where they were. Any thread's.
  [[nodiscard]] int take_pages(char* place, char* block, Bytes bytes) const;
  // Gives parts, then frames back to the system until at most so many bytes wait to be taken. Of
  // the last frame only what is too much.
  void trim(Bytes most_bytes);

 private:
  FramePool(const Userfault& userfault, Reservation addresses)
      : userfault_(&userfault), addresses_(std::move(addresses)) {}

  // Resident pages at a place's beginning.
  struct Part {
    char* place = nullptr;
    Bytes bytes = 0;
  };
  void unprotect(char* place, Bytes bytes) const;
  bool cut_frame();
  void shrink(std::size_t part, Bytes bytes);

  const Userfault* userfault_;
  Reservation addresses_;
  // Frames are born in places that the system fills at a touch, and come back to places that only
  // moves may fill.
  char* nursery_ = nullptr;
  char* nursery_end_ = nullptr;
  std::vector<void*> unborn_;  // empty places of the nursery
  std::vector<void*> empty_;   // ... of the others
  std::vector<void*> full_;    // frames to be taken
  std::vector<Part> parts_;    // oldest first
  Bytes parts_bytes_ = 0;
};

}  // namespace spillway::host
