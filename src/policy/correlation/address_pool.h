// Device memory without paging: tensors in contiguous ranges of one address space. Layer: policy.
// FlashNeuron's memory manager: what stays is placed from the left end, what is offloaded and
// fetched again from the right, so that the two kinds do not fragment each other's side.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/units.h"

namespace spillway {

class AddressPool {
 public:
  explicit AddressPool(Bytes capacity_bytes) { free_.emplace(0, capacity_bytes); }

  // The start of a free range of that size, the leftmost or the rightmost; nullopt if there is
  // none.
  std::optional<Bytes> take_left(Bytes bytes);
  std::optional<Bytes> take_right(Bytes bytes);
  // `start` and `bytes` as they were taken.
  void give_back(Bytes start, Bytes bytes);

  [[nodiscard]] Bytes largest_free_bytes() const;

 private:
  std::map<Bytes, Bytes> free_;  // start to size; neighbours are merged
};

}  // namespace spillway
