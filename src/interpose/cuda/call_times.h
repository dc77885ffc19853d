// What the program's calls cost it: by kind of call how often, how long in our code, and how long
// in the driver's own call inside it. Layer: interpose, cuda. Counted only where somebody wants to
// know (SPILLWAY_WORK_TIMES); elsewhere a call pays one load and a branch. Where it is counted,
// four looks at the clock and a few additions: the list says what those were (`timing`). Calls that
// take longer than a launch ever should, because a module is loaded, a queue is full or the program
// is held, are told by themselves: few of them would hide what all others take.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/common/process/clock.h"

namespace spillway::cuda {

enum class CallKind : std::uint8_t {
  kLaunch,
  kAllocation,
  kFree,
  kCopy,
  kMemset,
  kEventRecord,
  kStreamWait,   // for an event
  kQuestion,     // about memory
  kSynchronize,  // what waits for the device
  kOther,
};

// Any thread's.
class CallTimes {
 public:
  static constexpr TimeNs kLongNs = 100'000;

  void add(CallKind kind, TimeNs ours_ns, TimeNs driver_ns) {
    OfKind& of = kinds_[static_cast<std::size_t>(kind)];
    of.parts[ours_ns < kLongNs ? kOurs : kOursLong].add(ours_ns);
    of.parts[driver_ns < kLongNs ? kDriver : kDriverLong].add(driver_ns);
    of.ours[std::min<std::size_t>(static_cast<std::size_t>(ours_ns / kBinNs), kBins - 1)].fetch_add(
        1, std::memory_order_relaxed);
  }

  struct Told {
    std::string name;
    std::uint64_t count = 0;
    TimeNs time_ns = 0;
  };
  // For each kind `KIND_ours`, `KIND_driver`, and those of `kLongNs` and more, `KIND_ours_long`,
  // `KIND_driver_long`; `KIND_ours_median`: all of them, as if each had taken what the middle one
  // did. And `timing`: what is counted of calls that do nothing.
  [[nodiscard]] std::vector<Told> told() const;

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(CallKind::kOther) + 1;
  enum Part : std::uint8_t { kOurs, kDriver, kOursLong, kDriverLong, kParts };
  struct One {
    std::atomic<std::uint64_t> count{0};
    std::atomic<TimeNs> time_ns{0};
    void add(TimeNs more_ns) {
      count.fetch_add(1, std::memory_order_relaxed);
      time_ns.fetch_add(more_ns, std::memory_order_relaxed);
    }
  };
  // Of all in our code, by how long they took; the last has those that took longer.
  static constexpr TimeNs kBinNs = 40;
  static constexpr std::size_t kBins = 512;
  struct alignas(64) OfKind {
    std::array<One, kParts> parts;
    std::array<std::atomic<std::uint64_t>, kBins> ours{};
  };
  [[nodiscard]] static Told median(const OfKind& of, std::string name);
  std::array<OfKind, kKinds> kinds_;
};

// One call, where it is counted.
class CallTimer {
 public:
  CallTimer(CallTimes* times, CallKind kind)
      : times_(times), kind_(kind), since_ns_(times == nullptr ? 0 : now_ns()) {}
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  ~CallTimer() {
    if (times_ != nullptr) {
      times_->add(kind_, now_ns() - since_ns_ - driver_ns_, driver_ns_);
    }
  }
  // What the driver's own call gives.
  template <typename Call>
  auto driver(const Call& call) {
    if (times_ == nullptr) {
      return call();
    }
    const TimeNs since_ns = now_ns();
    const auto result = call();
    driver_ns_ += now_ns() - since_ns;
    return result;
  }

 private:
  CallTimes* times_;
  CallKind kind_;
  TimeNs since_ns_;
  TimeNs driver_ns_ = 0;
};

namespace detail {
// Of the process; nullptr where nobody wants to know.
extern std::atomic<CallTimes*> call_times;
}  // namespace detail

}  // namespace spillway::cuda
