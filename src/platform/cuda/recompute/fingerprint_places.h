// Where fingerprints of allocations lie, which the device writes: places of kFingerprints
// fingerprints each. Layer: platform, cuda.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "platform/cuda/stream/device_launches.h"

namespace spillway::cuda {

class FingerprintPlaces {
 public:
  static constexpr std::uint32_t kPlaces = 256;
  enum Fingerprint : std::uint8_t { kFirst, kSecond, kBeforeTrial, kFingerprints };

  explicit FingerprintPlaces(const DeviceLaunches& launches) : launches_(launches) {}

  // The words of all places, kFingerprintWords for each fingerprint.
  void set_words(const std::uint64_t* words) { words_ = words; }

  // A place that nobody writes any more, or that was last written on this stream; kNoIndex if there
  // is none.
  [[nodiscard]] std::uint32_t take(StreamId stream);
  // The last fingerprint there is written by the launch with this number.
  void give_back(std::uint32_t place, StreamId stream, std::uint64_t number) {
    free_.push_back({.place = place, .stream = stream, .number = number});
  }

  // Where the words of a fingerprint begin, counted from the first of all.
  [[nodiscard]] static std::size_t words_of(std::uint32_t place, Fingerprint which);
  // Of two that have been written.
  [[nodiscard]] bool are_same(std::uint32_t place, Fingerprint one, Fingerprint other) const;

 private:
  // A place whose old fingerprints may still be on their way.
  struct FreePlace {
    std::uint32_t place = 0;
    StreamId stream = 0;
    std::uint64_t number = 0;
  };

  const DeviceLaunches& launches_;
  const std::uint64_t* words_ = nullptr;
  std::vector<FreePlace> free_;
  std::uint32_t used_ = 0;  // that were ever used
};

}  // namespace spillway::cuda
