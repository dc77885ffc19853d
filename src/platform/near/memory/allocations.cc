// See allocations.h.
#include "platform/near/memory/allocations.h"

#include <iterator>

namespace spillway::near {

void Allocations::add(Address start, Bytes bytes) {
  by_start_.emplace(start, Allocation{.bytes = bytes, .holds = 0});
}

Result<Bytes> Allocations::remove(Address start) {
  const auto found = by_start_.find(start);
  if (found == by_start_.end()) {
    return make_error(ErrorCode::kInvalidInput,
                      "{}: no allocation starts at {:#x}; has it been freed before?", where_,
                      start);
  }
  if (found->second.holds > 0) {
    return make_error(ErrorCode::kBusy,
                      "{}: a copy or a kernel uses the allocation at {:#x}; wait for it before "
                      "freeing that",
                      where_, start);
  }
  const Bytes bytes = found->second.bytes;
  by_start_.erase(found);
  return bytes;
}

Result<Address> Allocations::hold(Address first, Bytes bytes) {
  const auto after = by_start_.upper_bound(first);
  const auto found = after == by_start_.begin() ? by_start_.end() : std::prev(after);
  if (found == by_start_.end() || first - found->first >= found->second.bytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "{}: {:#x} is in no allocation; has it been freed before?", where_, first);
  }
  if (bytes > found->second.bytes - (first - found->first)) {
    return make_error(ErrorCode::kInvalidInput,
                      "{}: {} bytes at {:#x} reach beyond the end of their allocation of {} bytes",
                      where_, bytes, first, found->second.bytes);
  }
  ++found->second.holds;
  return found->first;
}

void Allocations::release(Address start) { --by_start_.at(start).holds; }

bool Allocations::has(Address address) const {
  const auto after = by_start_.upper_bound(address);
  return after != by_start_.begin() &&
         address - std::prev(after)->first < std::prev(after)->second.bytes;
}

}  // namespace spillway::near
