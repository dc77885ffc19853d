// How much host memory there is for the program's blocks: what is pinned, what the system can spare
// beside that, and whether launches may use more of it over the link. Layer: platform, cuda.
// docs/cuda.md, "Little host memory". It counts and asks nobody. With the platform's lock held.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "platform/common/process/memory_room.h"

namespace spillway::cuda {

class HostBudget {
 public:
  // `most_bytes`: --host-memory. Memory is pinned in pieces of `piece_bytes`. `sees_system`:
  // somebody calls saw(); without it the system can spare all of `most_bytes`.
  HostBudget(Bytes most_bytes, Bytes piece_bytes, bool sees_system)
      : most_bytes_(most_bytes), piece_bytes_(piece_bytes), sees_system_(sees_system) {}

  // --- Pinned memory
  // So much more of it may be used.
  void grown(Bytes bytes) { pinned_bytes_ += bytes; }
  [[nodiscard]] Bytes pinned_bytes() const { return pinned_bytes_; }
  // The driver pins no more.
  void end() { ended_ = true; }
  // The most that may be pinned. What launches use over the link, `host_mapped_bytes`, is the
  // host's as well: what one has taken the other cannot have.
  [[nodiscard]] Bytes most_pinned_bytes(Bytes host_mapped_bytes) const;
  [[nodiscard]] bool may_grow(Bytes host_mapped_bytes) const {
    return !ended_ && pinned_bytes_ < most_pinned_bytes(host_mapped_bytes);
  }
  // So much is to be pinned soon.
  void want(Bytes bytes) { wanted_bytes_ = std::max(wanted_bytes_, bytes); }

  // --- What the system can spare
  // It had `room` at `now_ns`, while launches used `host_mapped_bytes`.
  void saw(const MemoryRoom& room, Bytes host_mapped_bytes, TimeNs now_ns);
  // Whether what was seen last still counts.
  [[nodiscard]] bool is_known(TimeNs now_ns) const { return now_ns - seen_ns_ < kAsKnownNs; }
  [[nodiscard]] const MemoryRoom& room() const { return room_; }
  // More is wanted than it can spare, or can be had after all. True the first time that it is
  // short.
  [[nodiscard]] bool set_short(bool is_short);
  [[nodiscard]] bool is_short() const { return short_; }
  // Of host memory, what is pinned or used over the link included: the most that can be had.
  [[nodiscard]] Bytes limit_bytes(Bytes host_mapped_bytes) const;
  // The system, not the user, is who allows no more.
  [[nodiscard]] bool system_limits(Bytes host_mapped_bytes) const {
    return !ended_ && limit_bytes(host_mapped_bytes) < most_bytes_;
  }

  // --- Host-mapped memory
  // Whether the device can use any.
  void allow_host_mapped(bool allowed) { allowed_ = allowed; }
  // The most that launches may use over the link, beside what is pinned or wanted to be.
  [[nodiscard]] Bytes host_mapped_capacity_bytes() const;
  // The system had none for it. It may have some again, but the longer it has had none, the less
  // often that is tried. True the first time.
  [[nodiscard]] bool refused(TimeNs now_ns);
  // Whether it is time to try again.
  [[nodiscard]] bool may_try_again(TimeNs now_ns) const {
    return refused_ns_ != 0 && now_ns - refused_ns_ >= pause_ns_;
  }
  // The system still has none, has some, or a launch has got some.
  void still_refused(TimeNs now_ns);
  void allowed_again() { refused_ns_ = 0; }
  void got_host_mapped() { pause_ns_ = 0; }

 private:
  // What was seen of the system's memory counts for so long.
  static constexpr TimeNs kAsKnownNs = 10'000'000;
  // Between tries of a driver that refuses what the system has.
  static constexpr TimeNs kLongestPauseNs = 10 * kNsPerS;

  Bytes most_bytes_;
  Bytes piece_bytes_;
  bool sees_system_;
  Bytes pinned_bytes_ = 0;
  Bytes wanted_bytes_ = 0;
  bool ended_ = false;
  bool short_ = false;
  bool was_short_ = false;
  MemoryRoom room_;        // as it was seen last,
  Bytes there_bytes_ = 0;  // with so much host memory taken
  TimeNs seen_ns_ = 0;
  bool allowed_ = false;
  bool was_refused_ = false;
  TimeNs refused_ns_ = 0;  // when there was none the last time; 0: there is
  TimeNs pause_ns_ = 0;
};

}  // namespace spillway::cuda
