// The order in which blocks were updated at the host: the last one is needed last, in the next
// iteration (near-memory section 5.3). Layer: engine. Moves nothing.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_map>

#include "base/ids.h"
#include "engine/memory/space.h"

namespace spillway {

class UpdatedOrder {
 public:
  explicit UpdatedOrder(const Space& space) : space_(&space) {}

  void updated(BlockId id) {
    forget(id);
    number_of_[id] = ++last_;
    by_number_[last_] = id;
  }
  // The one that was updated last, of those for which `holds`; kNoBlock if there is none. Those for
  // which it does not hold now keep their place, unless they have left host memory since.
  template <typename Holds>
  [[nodiscard]] BlockId last(Holds holds) {
    for (auto one = by_number_.rbegin(); one != by_number_.rend();) {
      const BlockId id = one->second;
      if (holds(id)) {
        return id;
      }
      if (!space_->has_tenant(id) || !space_->block(id).frames.has(Tier::kHost)) {
        number_of_.erase(id);
        one = std::make_reverse_iterator(by_number_.erase(std::next(one).base()));
      } else {
        ++one;
      }
    }
    return kNoBlock;
  }
  void forget(BlockId id) {
    if (const auto found = number_of_.find(id); found != number_of_.end()) {
      by_number_.erase(found->second);
      number_of_.erase(found);
    }
  }

 private:
  const Space* space_;
  std::map<std::uint64_t, BlockId> by_number_;
  std::unordered_map<BlockId, std::uint64_t> number_of_;
  std::uint64_t last_ = 0;
};

}  // namespace spillway
