// The moments of a run of any length, in a bounded number of samples. Layer: runtime.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/record/run_record.h"

namespace spillway {

class RunSamples {
 public:
  static constexpr std::size_t kMax = 2000;

  // In the order of time. When there are too many, every second one goes, and from then on only as
  // many are kept.
  void add(const RunSample& sample) {
    if (moments_++ % every_ != 0) {
      return;
    }
    samples_.push_back(sample);
    if (samples_.size() < kMax) {
      return;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < samples_.size(); i += 2) {
      samples_[kept++] = samples_[i];
    }
    samples_.resize(kept);
    every_ *= 2;
  }
  [[nodiscard]] const std::vector<RunSample>& all() const { return samples_; }

 private:
  std::vector<RunSample> samples_;
  std::size_t every_ = 1;  // of the moments, one in so many is kept
  std::size_t moments_ = 0;
};

}  // namespace spillway
