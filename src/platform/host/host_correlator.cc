// The correlator: the thread that takes faults and launches to the engine, and so to the policy
// (DeepUM section 3, figure 4). See host_platform.h.
#include <fmt/format.h>

#include <algorithm>

#include "platform/common/process/clock.h"
#include "platform/host/host_platform.h"

namespace spillway::host {
namespace {

// How long marks of launches lie when nobody waits.
constexpr TimeNs kIdleWaitNs = 100'000'000;

}  // namespace

void HostPlatform::correlate() {
  const TimeNs latency_ns = options_.link.fault_latency_ns;
  constexpr TimeNs kLeastWaitNs = 20'000;  // where the first one has been postponed
  while (!stop_) {
    const std::optional<TimeNs> next_at_ns = faults_.next_at_ns();
    const TimeNs due_ns = next_at_ns ? *next_at_ns + latency_ns - now_ns() : kIdleWaitNs;
    wake_.wait_for(std::clamp<TimeNs>(due_ns, next_at_ns ? kLeastWaitNs : 0, kIdleWaitNs));
    FaultRecord record;
    while (reader_->next(record)) {
      faults_.add(record);
    }
    const MutexLock lock(mutex_);
    if (forking_) {
      continue;  // after_fork wakes us
    }
    launches_.take_marks();
    take_faults();
    check_progress();
  }
}

// Those that the machine's latency has passed for.
void HostPlatform::take_faults() {
  const TimeNs until_ns = now_ns() - options_.link.fault_latency_ns;
  const Space& space = engine_.space();
  std::vector<ThreadFault> taken;
  FaultRecord fault;
  while (faults_.take(until_ns, fault)) {
    if (fault.block >= space.block_slots() || space.block(fault.block).tenants == 0) {
      // The program uses memory that it has freed, or never had. What it reads is undefined; it
      // must not stop for ever. What still moves has to arrive first.
      if (fault.block < space.block_slots() && space.block(fault.block).transfer != kNoIndex) {
        faults_.postpone(fault);
        continue;
      }
      pages_.fill_dead(fault.block);
      userfault_.wake(addresses_.address_of(fault.block), kBlockBytes);
      continue;
    }
    // Of a block that is there a page is missing if the program has given it up by a bare madvise,
    // which counts as a write, or has never had it, behind the allocation's end.
    if (fault.missing && pages_.there(fault.block) && !pages_.aside(fault.block) &&
        space.block(fault.block).transfer == kNoIndex &&
        pages_.fill_gone(fault.block, fault.page)) {
      fault.write = true;
    }
    if (threads_.begin(fault, launches_.latest_row()) &&
        space.block(fault.block).transfer != kNoIndex) {
      workers_->hurry(fault.block);
    }
    taken.push_back({.block = fault.block, .write = fault.write});
  }
  faults_.put_back();
  if (!taken.empty()) {
    engine_.thread_faults(launches_.latest(), taken);
  }
}

void HostPlatform::check_progress() {
  if (const std::optional<Error>& fatal = engine_.fatal()) {
    failures_.fatal(failures_.with_cause(*fatal));
  } else if (const std::optional<Error> stuck = engine_.stuck()) {
    // Updates may stand in the way of themselves and of others, and can do without.
    if (!updates_.withdraw_waiting()) {
      failures_.fatal(*stuck);
    }
  } else {
    warn_of_waiting();
  }
}

// A launch that runs may still end, so this is no error. But if it is the launch's own thread that
// waits, it will not.
void HostPlatform::warn_of_waiting() {
  const TimeNs stopped_ns = stalls_.current_ns();
  if (warned_ || engine_.transfers_in_flight() > 0 || stopped_ns == 0 ||
      stopped_ns < options_.warn_after_ns) {
    return;
  }
  warned_ = true;
  options_.warn(
      fmt::format("a thread has waited {:.1f} s for memory that running launches leave no room "
                  "for; {} of device memory are too few for what they name and what it touches "
                  "beside that",
                  to_seconds(stopped_ns), format_bytes(engine_.capacity_bytes(Tier::kDevice))));
}

}  // namespace spillway::host
