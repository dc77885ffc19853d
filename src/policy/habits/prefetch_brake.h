// How far ahead it pays to prefetch, told from what comes in. Layer: policy.
// A table that is out of date, or memory too small for so many kernels ahead, makes a prefetcher
// bring what nobody needs and push out what somebody does. What would have come in without it is
// measured: for one epoch now and then nothing is prefetched. Launches are counted in epochs of
// about an iteration, as many as there are kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace spillway {

// Not safe for concurrent use.
class PrefetchBrake {
 public:
  // What comes in with prefetches may be so much of what came in without, in the long run.
  static constexpr double kMostOfDemand = 1.25;

  // Never further ahead than `degree`.
  explicit PrefetchBrake(std::uint32_t degree)
      : most_(degree), reach_(degree < kFirstReach ? degree : kFirstReach) {}

  // A launch has begun; so many different kernels are known by now.
  void launched(std::size_t kernels);
  void demanded(Bytes bytes) { demanded_bytes_ += bytes; }
  void prefetched(Bytes bytes) { prefetched_bytes_ += bytes; }
  // For how many kernels ahead to prefetch now; 0: only for the current one.
  [[nodiscard]] std::uint32_t reach() const { return reach_; }
  [[nodiscard]] bool prefetches() const { return !measuring_; }

 private:
  static constexpr std::uint32_t kFirstReach = 8;
  static constexpr std::uint64_t kLeastLaunches = 256;
  static constexpr Bytes kNoiseBytes = 16 * kMiB;  // an epoch
  static constexpr std::uint32_t kGoodInARow = 4;
  // Epochs after which a measurement is doubted, and made anew.
  static constexpr std::uint32_t kDoubtedAfter = 8;
  static constexpr std::uint32_t kMeasureEvery = 64;

  void end_epoch();
  void shorten();

  std::uint32_t most_;
  std::uint32_t reach_;
  std::size_t kernels_ = 0;  // known at the last epoch's end
  std::uint64_t launches_ = 0;
  Bytes demanded_bytes_ = 0;
  Bytes prefetched_bytes_ = 0;
  bool measuring_ = false;
  double demand_ = 0;     // bytes a launch without prefetches; 0: unknown
  double suspect_ = 0;    // bytes a launch that led to measuring
  bool starting_ = true;  // never halved yet
  std::uint32_t good_ = 0;
  std::uint32_t since_measured_ = 0;
};

}  // namespace spillway
