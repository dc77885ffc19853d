// Two streams of the engine's context: copies in and copies out, what is under way on them, in
// order. Layer: platform, cuda. Knows addresses and memory, and no launch. The driver thread's.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/units.h"
#include "platform/cuda/driver.h"

namespace spillway::cuda {

// Bytes of one block, on the device in one piece, in pinned memory in one or several.
struct BlockCopy {
  struct Piece {
    char* host = nullptr;
    Bytes bytes = 0;
  };
  CuAddress device = 0;
  std::vector<Piece> pieces;
};

class CopyLanes {
 public:
  enum class Direction : std::uint8_t { kIn, kOut };
  struct Ended {
    std::uint64_t tag = 0;
    bool failed = false;  // the driver has refused a part; no part is under way any more
  };

  // The driver must outlive it.
  explicit CopyLanes(const Driver& driver) : driver_(&driver) {}

  // The engine's context is current, here and below. Returns the first error.
  [[nodiscard]] CuResult make();
  // Nothing is under way any more.
  void give_back();

  // Behind what was added before in this direction.
  void add(Direction direction, std::uint64_t tag, std::vector<BlockCopy> copies);
  // Submits what may be, and adds what has ended. An error means that the context is lost, and
  // stays.
  [[nodiscard]] CuResult poll(std::vector<Ended>& ended);
  [[nodiscard]] bool idle() const;

  // Whether copies out are kept to one under way: giving access to handles waits for them
  // (docs/gpu.md section 5).
  void keep_out_short(bool yes) { out_short_ = yes; }

  [[nodiscard]] Bytes copied_bytes() const { return copied_bytes_; }
  // Whether copies were under way when it was last polled.
  [[nodiscard]] bool under_way(Direction direction) const {
    return !lanes_[static_cast<std::size_t>(direction)].under_way.empty();
  }

 private:
  struct Batch {
    std::uint64_t tag = 0;
    std::vector<BlockCopy> copies;
    CuEvent event = nullptr;  // behind it, once it has been submitted
    bool failed = false;
  };
  struct Lane {
    CuStream stream = nullptr;
    std::deque<Batch> under_way;
    std::deque<Batch> waiting;
  };
  CuResult look(std::vector<Ended>& ended);
  CuResult submit(Lane& lane, Direction direction, Batch batch);
  CuResult take_event(CuEvent& event);

  const Driver* driver_;
  std::array<Lane, 2> lanes_;
  std::vector<CuEvent> events_;  // free
  Bytes copied_bytes_ = 0;
  bool out_short_ = false;
  CuResult lost_ = CuResult::kSuccess;  // why it is
};

}  // namespace spillway::cuda
