#include "platform/cuda/transfer/memory_shortage.h"

#include <algorithm>

namespace spillway::cuda {
namespace {

// After how long the budget is lowered, host memory taken instead, and the run ended.
constexpr TimeNs kPatienceNs = 5'000'000;
constexpr TimeNs kTellAgainNs = 20'000'000;
constexpr TimeNs kHostMemoryAfterNs = 100'000'000;
constexpr TimeNs kGiveUpNs = 10'000'000'000;

}  // namespace

bool MemoryShortage::give_up(BlockId block) {
  const auto none = std::find_if(waiting_.begin(), waiting_.end(), [&](const DriverCommand& it) {
    return it.kind == DriverCommand::Kind::kBack && it.block == block;
  });
  if (none == waiting_.end()) {
    return false;
  }
  waiting_.erase(none);
  return true;
}

MemoryShortage::Due MemoryShortage::look(TimeNs now_ns) {
  if (since_ns_ == 0) {
    since_ns_ = now_ns;
    told_ns_ = now_ns - kTellAgainNs + kPatienceNs;
  }
  const bool tell = now_ns - told_ns_ >= kTellAgainNs;
  if (tell) {
    told_ns_ = now_ns;
  }
  return {.tell = tell, .give_up = now_ns - since_ns_ >= kGiveUpNs};
}

bool MemoryShortage::is_long(TimeNs now_ns) const {
  return since_ns_ != 0 && now_ns - since_ns_ >= kHostMemoryAfterNs;
}

}  // namespace spillway::cuda
