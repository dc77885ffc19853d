// How far ahead of the device fetching makes sense: up to the last issued launch for which
// everything has room at every moment. Layer: policy. What is fetched for later launches takes the
// place of something that is needed earlier. Memory with contents counts from now on, because it
// may come at once; memory without contents from the launch that uses it first. Both count until
// the launch after which they are known to die.
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
  void ended(const Launch& launch);
  // As far as room allows.
  void extend(const Control& control);

  // The last launch within it.
  [[nodiscard]] LaunchSeq end() const { return end_; }

 private:
  void add(const Launch& launch, const Control& control);
  // The most that is in use at one time up to the window's end.
  [[nodiscard]] std::int64_t peak_bytes() const {
    return (peaks_.empty() ? 0 : peaks_.front().second) + contents_bytes_ - gone_bytes_;
  }

  struct Named {
    std::uint32_t launches = 0;  // within the window that name it, as often as they do
    // Of the device, when it was taken in: it may become host-mapped meanwhile.
    std::uint32_t bytes = 0;
    bool dies = false;  // after the last of them
  };
  std::vector<Named> blocks_;
  // What is in use at a launch: what it or one before it names and nothing before it has killed,
  // and all contents that are named later. Sums over all launches so far; what nobody names any
  // more is taken off them all.
  std::int64_t live_bytes_ = 0;
  std::int64_t contents_bytes_ = 0;
  std::int64_t gone_bytes_ = 0;
  // By launch, live less contents up to it, where no later launch had more: the first had the most.
  std::deque<std::pair<LaunchSeq, std::int64_t>> peaks_;
  LaunchSeq end_ = 0;
  LaunchId last_ = kNoLaunch;  // the launch that is issued only and was taken in last
};

}  // namespace spillway
