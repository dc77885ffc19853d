// The launches that have been issued and have not ended: their operands, and how far each has come.
// Layer: engine. Knows nothing of blocks.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/launches/order_index.h"
#include "engine/types.h"

namespace spillway {

// The life of a launch (docs/engine.md).
enum class LaunchStage : std::uint8_t {
  kNone,
  kIssued,    // policies have seen it; nothing is pinned
  kAdmitted,  // its blocks are pinned and on their way
  kReleased,  // it may run
};

class LaunchTable {
 public:
  struct Record {
    Launch launch;
    std::vector<std::uint64_t> epochs;  // of each access's allocation, when it was issued
    LaunchStage stage = LaunchStage::kNone;
    bool claims = false;            // it had to wait for its admission (pending_uses.h)
    Bytes bytes = 0;                // of its operands, at most (pins.h, bytes_of)
    std::uint32_t missing = 0;      // blocks that are not there yet
    std::uint32_t unsubmitted = 0;  // ... and that no transfer has taken up
    std::uint32_t faults_open = 0;  // of the missing ones, those that nobody had asked for
    std::vector<TransferId> waits;  // what it must wait for once it is released
    // Used blocks that may leave and that this launch will be the next to use (pending_uses.h).
    std::uint32_t first_listed = OrderIndex::kNone;
    std::uint32_t position = 0;  // among launches that are issued only (pending_uses.h)
    std::uint32_t place = 0;     // among all that are live
  };

  // A slot for it, at the stage kIssued. Its number in the order of issue is given here.
  std::uint32_t take(const Launch& launch, Bytes bytes);
  // The launch has ended.
  void give_back(std::uint32_t slot);

  [[nodiscard]] Record& at(std::uint32_t slot) { return records_[slot]; }
  [[nodiscard]] const Record& at(std::uint32_t slot) const { return records_[slot]; }
  [[nodiscard]] static std::uint32_t slot_of(LaunchId id) {
    return static_cast<std::uint32_t>(id) & ((1U << kSlotBits) - 1);
  }
  // Whether the launch with this id is at this stage now; ids of the past are at none.
  [[nodiscard]] bool is_at(LaunchId id, LaunchStage stage) const {
    const std::uint32_t slot = slot_of(id);
    return slot < records_.size() && records_[slot].launch.id == id &&
           records_[slot].stage == stage;
  }

  [[nodiscard]] std::size_t live() const { return order_.size(); }
  // A million are in flight: no id is left for another.
  [[nodiscard]] bool full() const { return live() + 1 >= std::size_t{1} << kSlotBits; }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(records_.size()); }
  // Launches that could end by themselves: released, with nothing missing.
  [[nodiscard]] std::uint32_t running() const { return running_; }
  void runs(bool more) { running_ += more ? 1U : ~0U; }
  // What the largest live launch needs; more for a while where launches end out of order.
  [[nodiscard]] Bytes largest_bytes();

  [[nodiscard]] Status check() const;

 private:
  static constexpr OrderIndex::Mark kLive = OrderIndex::Mark::kFirst;

  std::vector<Record> records_;
  std::vector<std::uint32_t> free_;
  std::uint32_t running_ = 0;
  LaunchSeq last_seq_ = 0;
  OrderIndex order_;  // slots of all live launches, all marked
  // Launches none of whose successors needs as much, in order: the first one needs the most.
  std::deque<std::pair<LaunchSeq, Bytes>> largest_;
};

}  // namespace spillway
