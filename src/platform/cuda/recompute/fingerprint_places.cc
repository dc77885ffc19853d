#include "platform/cuda/recompute/fingerprint_places.h"

#include <algorithm>

#include "platform/cuda/driver/own_launches.h"

namespace spillway::cuda {

std::uint32_t FingerprintPlaces::take(StreamId stream) {
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const FreePlace& it) {
    return it.stream == stream || launches_.stream(it.stream).ended >= it.number;
  });
  if (found != free_.end()) {
    const std::uint32_t place = found->place;
    free_.erase(found);
    return place;
  }
  return used_ < kPlaces ? used_++ : kNoIndex;
}

std::size_t FingerprintPlaces::words_of(std::uint32_t place, Fingerprint which) {
  return kFingerprintWords * (std::size_t{kFingerprints} * place + which);
}

bool FingerprintPlaces::are_same(std::uint32_t place, Fingerprint one, Fingerprint other) const {
  const std::uint64_t* const words = words_ + words_of(place, one);
  return std::equal(words, words + kFingerprintWords, words_ + words_of(place, other));
}

}  // namespace spillway::cuda
