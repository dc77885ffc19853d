// Which blocks are wanted on the device, who wants them and where they are: faults before
// prefetches, one queue for each source. Layer: engine.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "base/error.h"
#include "engine/memory/space.h"

namespace spillway {

class FetchQueue {
 public:
  struct Wish {
    BlockId block = kNoBlock;
    std::uint64_t order = 0;  // of wishes
  };
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  explicit FetchQueue(Space& space) : space_(&space) {}

  // Where the bytes of a block that is wanted come from.
  [[nodiscard]] static Source source_of(const Block& block) {
    if (block.contents != Contents::kLive) {
      return Source::kZeros;
    }
    return block.copies.has(Tier::kHost) ? Source::kHostCopy : Source::kStorageCopy;
  }

  // The block is wished for, now with this priority. One that was wished for with the same priority
  // before, and has not come up since, keeps that place.
  void add(BlockId id, FetchState priority);
  // It is not, or not any more.
  void remove(Block& block);

  // When the entry at the head of a queue was made, also if nobody wishes for that block any more;
  // kNoLimit where there is none.
  [[nodiscard]] std::uint64_t head_order(FetchState priority, Source source) const {
    const std::deque<Wish>& all = queues_[index_of(priority)][static_cast<std::size_t>(source)];
    return all.empty() ? kNoLimit : all.front().order;
  }
  // The block that was wished for first in a queue, if that was before `limit`; nullopt if there is
  // none.
  [[nodiscard]] std::optional<BlockId> front(FetchState priority, Source source,
                                             std::uint64_t limit);
  // The front has been taken up.
  void pop(FetchState priority, Source source);

  [[nodiscard]] Bytes fault_bytes() const { return bytes_[0]; }
  // Of the blocks at the heads of the fault queues, for which room is made first, the largest.
  [[nodiscard]] Bytes first_fault_bytes() const;
  [[nodiscard]] Bytes prefetch_bytes() const { return bytes_[1]; }

  [[nodiscard]] Status check() const;

 private:
  static std::size_t index_of(FetchState priority) {
    return priority == FetchState::kFault ? 0 : 1;
  }
  std::deque<Wish>& queue(FetchState priority, Source source) {
    return queues_[index_of(priority)][static_cast<std::size_t>(source)];
  }
  [[nodiscard]] bool stale(const Wish& wish, FetchState priority, Source source) const;

  Space* space_;
  // [fault, prefetch][source]; may hold stale entries: the block's own `fetch` decides.
  std::array<std::array<std::deque<Wish>, kSourceCount>, 2> queues_;
  std::array<Bytes, 2> bytes_{};  // that wait
  std::uint64_t order_ = 0;
};

}  // namespace spillway
