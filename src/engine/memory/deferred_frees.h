// Frees, discards, reuses and fetches that a program asks for between two launches. Each takes
// effect only when the earlier launches that use the memory have ended. Layer: engine. UVM Discard
// (section 4) orders a discard in one stream; here it comes behind every launch that was issued
// before it and names the memory, on whatever stream. docs/engine.md, "Death in order".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/types.h"

namespace spillway {

enum class DiscardMode : std::uint8_t { kEager, kLazy };

// Something that was said of an allocation, or of some of its blocks.
struct Remark {
  enum class Kind : std::uint8_t { kFree, kDiscard, kReuse, kPrefetch, kPreEvict };
  Kind kind = Kind::kFree;
  AllocationId allocation = kNoAllocation;
  BlockId first_block = 0;
  std::uint32_t block_count = 0;
  DiscardMode mode = DiscardMode::kEager;
  Tier to = Tier::kHost;
  bool whole = false;  // of the allocation

  friend bool operator==(const Remark&, const Remark&) = default;
};

// Launches between two remarks that have to wait use an allocation in the same epoch of it. An
// epoch is over when those launches have ended and the epochs before it are over; then the remark
// that closed it takes effect. Costs nothing that grows with the number of launches or remarks.
class DeferredFrees {
 public:
  using Epoch = std::uint64_t;

  // A launch is issued that names the allocation. The epoch is to be handed back when it ends.
  Epoch begin_use(AllocationId id) {
    if (id >= states_.size()) {
      states_.resize(id + std::size_t{1});
    }
    ++states_[id].uses;
    return states_[id].epoch;
  }
  // It has ended. True if remarks may take effect now: `take` gives them.
  [[nodiscard]] bool end_use(AllocationId id, Epoch epoch);

  // Whether what is said of the allocation now must wait.
  [[nodiscard]] bool busy(AllocationId id) const {
    return id < states_.size() && (states_[id].uses > 0 || states_[id].waiting);
  }
  // Whether something that was said of it waits.
  [[nodiscard]] bool waits(AllocationId id) const {
    return id < states_.size() && states_[id].waiting;
  }
  // Whether the allocation as a whole is dead, as far as has been said, when this epoch is over.
  [[nodiscard]] bool dies_after(AllocationId id, Epoch epoch) const;
  // The epoch that a launch issued now would use.
  [[nodiscard]] Epoch epoch(AllocationId id) const {
    return id < states_.size() ? states_[id].epoch : 0;
  }

  // It takes effect when the launches that were issued until now have ended. Saying the same twice
  // in a row is saying it once.
  void add(const Remark& remark);
  // The next remark on this allocation that takes effect now, and the epoch that it closed; nullopt
  // if there is none.
  struct Due {
    Remark remark;
    Epoch epoch = 0;
  };
  [[nodiscard]] std::optional<Due> take(AllocationId id);

  // The allocation is gone, and its number may be given to another.
  void forget(AllocationId id);

  [[nodiscard]] std::size_t waiting() const { return pending_.size(); }
  [[nodiscard]] Status check() const;

 private:
  struct State {
    Epoch epoch = 0;
    std::uint64_t uses = 0;  // of the epoch, by launches that have not ended
    bool waiting = false;    // there are remarks in pending_
  };
  struct Closed {
    Remark remark;
    std::uint64_t uses = 0;  // of the epoch that it closed
  };
  std::vector<State> states_;                                     // by allocation
  std::unordered_map<AllocationId, std::deque<Closed>> pending_;  // epochs in a row, oldest first
};

}  // namespace spillway
