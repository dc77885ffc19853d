// See kept_places.h.
#include "platform/common/kept_places.h"

namespace spillway {

void KeptPlaces::keep(std::uint64_t place) {
  const MutexLock lock(mutex_);
  ++references_[place].count;
}

bool KeptPlaces::is_kept(std::uint64_t place) {
  const MutexLock lock(mutex_);
  return references_.contains(place);
}

bool KeptPlaces::give_up(std::uint64_t place) {
  const MutexLock lock(mutex_);
  const auto found = references_.find(place);
  if (found == references_.end()) {
    return true;
  }
  found->second.given_up = true;
  return false;
}

bool KeptPlaces::unkeep(std::uint64_t place) {
  const MutexLock lock(mutex_);
  const auto found = references_.find(place);
  if (--found->second.count > 0) {
    return false;
  }
  const bool free = found->second.given_up;
  references_.erase(found);
  return free;
}

}  // namespace spillway
