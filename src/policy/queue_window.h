// How far ahead of the device it makes sense to bring data: to the last issued launch up to which
// everything that launches name fits on the device together. Layer: policy.
// What is brought for launches beyond that takes the place of something that is needed before.
// Memory that is known to die within the window is counted while it lives only: what comes and goes
// between two launches must find room, once, and not again for each of them.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class QueueWindow {
 public:
  // A launch is admitted, or has ended: each launch once.
  void admitted(const Launch& launch, const Control& control);
  void ended(const Launch& launch, const Control& control);
  // As far as room allows.
  void extend(const Control& control);

  // The last launch within it.
  [[nodiscard]] LaunchSeq end() const { return end_; }

 private:
  void add(const Launch& launch, const Control& control);
  [[nodiscard]] Bytes passing_bytes_max() const {
    return passing_.empty() ? 0 : passing_.front().second;
  }

  struct Named {
    std::uint32_t launches = 0;  // within the window that name it, as often as they do
    bool dies = false;           // after the last of them
  };
  std::vector<Named> blocks_;
  Bytes staying_bytes_ = 0;  // of blocks that launches within it name and that do not die in it
  // By launch, what died after it, where no later launch lost more: the first one lost the most.
  std::deque<std::pair<LaunchSeq, Bytes>> passing_;
  LaunchSeq end_ = 0;
  LaunchId last_ = kNoLaunch;  // the launch that is issued only and was taken in last
};

}  // namespace spillway
