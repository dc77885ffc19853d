// Which blocks have their memory on the device, which have it on order, and which launches wait for
// that. Layer: platform, cuda. With the platform's lock held.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/grown_at.h"
#include "base/ids.h"

namespace spillway::cuda {

class BlockBacking {
 public:
  [[nodiscard]] bool is_there(BlockId block) const { return state(block) == State::kThere; }
  [[nodiscard]] bool is_coming(BlockId block) const { return state(block) == State::kComing; }
  [[nodiscard]] bool is_none(BlockId block) const { return state(block) == State::kNone; }

  // It comes with a transfer, which says when it is there.
  void comes_with_transfer(BlockId block) {
    at(block).state = State::kComing;
    at(block).serial = 0;
  }
  // It is ordered by itself: the number of the command, by which `is_ordered` knows it again. It
  // may be dropped, and ordered again, before the command has been carried out.
  std::uint64_t order(BlockId block) {
    at(block).state = State::kComing;
    return at(block).serial = ++last_serial_;
  }
  [[nodiscard]] bool is_ordered(BlockId block, std::uint64_t serial) const {
    return is_coming(block) && blocks_[block].serial == serial;
  }
  // It has its memory: the tags of launches that have waited for it.
  [[nodiscard]] std::vector<std::uint32_t> arrived(BlockId block) {
    at(block).state = State::kThere;
    return std::exchange(at(block).waiting, {});
  }
  // It has lost it. Whether it was there.
  bool drop(BlockId block) {
    at(block).serial = 0;
    return std::exchange(at(block).state, State::kNone) == State::kThere;
  }

  // A launch that is released waits for it.
  void wait(BlockId block, std::uint32_t tag) { at(block).waiting.push_back(tag); }
  [[nodiscard]] bool is_awaited(BlockId block) const {
    return block < blocks_.size() && !blocks_[block].waiting.empty();
  }

  // It is dead, without memory, but still mapped at some handle, which it may have back.
  void keep_mapped(BlockId block) { at(block).kept = true; }
  [[nodiscard]] bool is_kept(BlockId block) const {
    return block < blocks_.size() && blocks_[block].kept;
  }
  // It is not any more. Whether it was.
  [[nodiscard]] bool end_kept(BlockId block) {
    return is_kept(block) && std::exchange(blocks_[block].kept, false);
  }

 private:
  enum class State : std::uint8_t { kNone, kComing, kThere };
  struct Block {
    State state = State::kNone;
    bool kept = false;
    std::uint64_t serial = 0;
    std::vector<std::uint32_t> waiting;
  };
  [[nodiscard]] State state(BlockId block) const {
    return block < blocks_.size() ? blocks_[block].state : State::kNone;
  }
  Block& at(BlockId block) { return grown_at(blocks_, block); }

  std::vector<Block> blocks_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace spillway::cuda
