// Transfers under way, and the lanes that they take. Layer: engine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "engine/memory/space.h"

namespace spillway {

// How many batches of one kind may be under way at once.
struct Lane {
  std::uint32_t in_flight = 0;
  std::uint32_t in_flight_max = 0;
  [[nodiscard]] bool full() const { return in_flight >= in_flight_max; }
};

class InFlightTransfers {
 public:
  explicit InFlightTransfers(Space& space) : space_(&space) {}

  // A batch that is being put together; the block becomes part of it. A batch without blocks may
  // be forgotten.
  void add(Transfer& transfer, BlockId id);
  // It is complete. Gives it its id. The reference holds until the next call.
  const Transfer& depart(Transfer transfer, Lane& lane);
  // It has arrived, or failed: its blocks are part of it no more.
  [[nodiscard]] Transfer land(TransferId id);

  [[nodiscard]] const Transfer& of(const Block& block) const {
    return all_[block.transfer].transfer;
  }
  [[nodiscard]] std::size_t under_way() const { return under_way_; }
  // Copies ahead of need from the device, under way.
  [[nodiscard]] Bytes copying_ahead_bytes() const;

  [[nodiscard]] Status check() const;

 private:
  struct Flight {
    Transfer transfer;
    Lane* lane = nullptr;
    bool live = false;
  };
  [[nodiscard]] std::uint32_t next_slot();

  Space* space_;
  std::vector<Flight> all_;  // the low bits of a transfer's id are its slot here
  std::vector<std::uint32_t> free_;
  std::size_t under_way_ = 0;
  std::uint64_t departed_ = 0;
};

}  // namespace spillway
