// The free frames of a device by size, where each frame has the size of one block (EngineOptions::
// frames_have_sizes). Layer: engine. A frame that a block leaves is kept for the next block of
// exactly its size, and is given up, oldest first, when a block of another size needs the room. The
// platform keeps the same frames, and follows the engine when it has carried out the commands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>

#include "base/units.h"

namespace spillway {

class FreeFrames {
 public:
  void add(Bytes bytes) {
    by_size_[bytes].push_back(added_++);
    bytes_ += bytes;
  }
  // False if there is none of this size.
  bool take(Bytes bytes) {
    const auto found = by_size_.find(bytes);
    if (found == by_size_.end()) {
      return false;
    }
    found->second.pop_back();  // the others grow old
    removed(found);
    return true;
  }
  // The bytes of the one that was added first; 0 if there is none.
  Bytes take_oldest() {
    const auto oldest = std::min_element(
        by_size_.begin(), by_size_.end(),
        [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
    if (oldest == by_size_.end()) {
      return 0;
    }
    const Bytes bytes = oldest->first;
    oldest->second.pop_front();
    removed(oldest);
    return bytes;
  }
  [[nodiscard]] bool has(Bytes bytes) const { return by_size_.contains(bytes); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  // When each was added, oldest first.
  using BySize = std::map<Bytes, std::deque<std::uint64_t>>;
  void removed(BySize::iterator of) {
    bytes_ -= of->first;
    if (of->second.empty()) {
      by_size_.erase(of);
    }
  }

  BySize by_size_;  // no size is empty
  Bytes bytes_ = 0;
  std::uint64_t added_ = 0;
};

}  // namespace spillway
