// Allocations that other processes use, by the numbers that those know them by. Layer: platform,
// cuda. docs/interposer.md. With the platform's lock held.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"

namespace spillway::cuda {

class Exports {
 public:
  // Its number, which no other ever gets.
  std::uint64_t add(AllocationId id) {
    by_number_[++last_] = id;
    return last_;
  }
  // The allocation is freed.
  void remove(AllocationId id) {
    std::erase_if(by_number_, [id](const auto& it) { return it.second == id; });
  }
  [[nodiscard]] std::optional<AllocationId> find(std::uint64_t number) const {
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::optional<std::uint64_t> number_of(AllocationId id) const {
    const auto found = std::find_if(by_number_.begin(), by_number_.end(),
                                    [id](const auto& it) { return it.second == id; });
    return found == by_number_.end() ? std::nullopt : std::optional(found->first);
  }
  [[nodiscard]] bool contains(AllocationId id) const { return number_of(id).has_value(); }
  [[nodiscard]] std::size_t size() const { return by_number_.size(); }

  // While the driver makes a descriptor of its memory, without the lock, it is not freed. One at a
  // time.
  void hand_out(AllocationId id) { handed_out_ = id; }
  void handed_out() { handed_out_ = kNoAllocation; }
  [[nodiscard]] bool is_handed_out(AllocationId id) const { return handed_out_ == id; }
  [[nodiscard]] bool hands_out() const { return handed_out_ != kNoAllocation; }

 private:
  std::map<std::uint64_t, AllocationId> by_number_;
  std::uint64_t last_ = 0;
  AllocationId handed_out_ = kNoAllocation;
};

}  // namespace spillway::cuda
