// What the engine orders from the driver thread, and the orders that it has not taken yet. Layer:
// platform, cuda.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "platform/cuda/transfer/moves.h"

namespace spillway::cuda {

struct DriverCommand {
  enum class Kind : std::uint8_t {
    kBack,    // memory for a block
    kMove,    // a transfer; to the device with memory for its blocks
    kDrop,    // a block's memory goes back to the pool
    kBudget,  // how many bytes all handles may have
    kTrim,    // handles that nobody uses and that are too much are released
    kShare,   // another device may use all of it, too
    kForget,  // nothing of a run of addresses is mapped any more when this is reached
  };
  Kind kind = Kind::kBack;
  BlockId block = 0;
  CuAddress address = 0;
  Bytes bytes = 0;
  CuDevice device = 0;       // of kShare
  std::uint64_t serial = 0;  // of kBack, to know its answer by
  Move move = {};
};

// Thread-safe.
class DriverOrders {
 public:
  void push(DriverCommand command) {
    ++unanswered_;
    const MutexLock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  // One that waits for none of those before it.
  void push_ahead(DriverCommand command) {
    ++unanswered_;
    const MutexLock lock(mutex_);
    ahead_.push_back(std::move(command));
  }
  // All but those ahead go behind `taken`.
  void take(std::deque<DriverCommand>& taken) {
    const MutexLock lock(mutex_);
    std::move(commands_.begin(), commands_.end(), std::back_inserter(taken));
    commands_.clear();
  }
  [[nodiscard]] std::vector<DriverCommand> take_ahead() {
    const MutexLock lock(mutex_);
    return std::exchange(ahead_, {});
  }

  // So many that were pushed have been carried out.
  void answered(std::uint64_t orders) { unanswered_ -= orders; }
  [[nodiscard]] bool all_are_answered() const { return unanswered_ == 0; }

 private:
  Mutex mutex_;
  std::deque<DriverCommand> commands_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<DriverCommand> ahead_ SPILLWAY_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> unanswered_{0};
};

}  // namespace spillway::cuda
