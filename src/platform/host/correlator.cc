#include "platform/host/correlator.h"

#include <algorithm>

#include "platform/common/process/clock.h"
#include "platform/common/process/service_thread.h"

namespace spillway::host {
namespace {

// How long marks of launches lie when nobody waits.
constexpr TimeNs kIdleWaitNs = 100'000'000;

}  // namespace

void Correlator::start(FaultReader& reader, TransferWorkers& workers) {
  thread_ =
      service_thread("spw-correlate", [this, &reader, &workers] { correlate(reader, workers); });
}

void Correlator::stop() {
  stop_ = true;
  wake_.call();
  thread_.join();
}

void Correlator::correlate(FaultReader& reader, TransferWorkers& workers) {
  const TimeNs latency_ns = state_.options.link.fault_latency_ns;
  constexpr TimeNs kLeastWaitNs = 20'000;  // where the first one has been postponed
  while (!stop_) {
    const std::optional<TimeNs> next_at_ns = faults_.next_at_ns();
    const TimeNs due_ns = next_at_ns ? *next_at_ns + latency_ns - now_ns() : kIdleWaitNs;
    wake_.wait_for(std::clamp<TimeNs>(due_ns, next_at_ns ? kLeastWaitNs : 0, kIdleWaitNs));
    FaultRecord record;
    while (reader.next(record)) {
      faults_.add(record);
    }
    const MutexLock lock(state_.mutex);
    if (held_) {
      continue;  // who lets go wakes us
    }
    state_.launches.take_marks();
    take_faults(workers);
    progress_.check(state_);
  }
}

// Those that the machine's latency has passed for.
void Correlator::take_faults(TransferWorkers& workers) {
  const TimeNs until_ns = now_ns() - state_.options.link.fault_latency_ns;
  const Space& space = state_.engine.space();
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
      state_.pages.fill_dead(fault.block);
      state_.userfault.wake(state_.addresses.address_of(fault.block), kBlockBytes);
      continue;
    }
    // Of a block that is there a page is missing if the program has given it up by a bare madvise,
    // which counts as a write, or has never had it, behind the allocation's end.
    if (fault.missing && state_.pages.there(fault.block) && !state_.pages.aside(fault.block) &&
        space.block(fault.block).transfer == kNoIndex &&
        state_.pages.fill_gone(fault.block, fault.page)) {
      fault.write = true;
    }
    if (state_.threads.begin(fault, state_.launches.latest_row()) &&
        space.block(fault.block).transfer != kNoIndex) {
      workers.hurry(fault.block);
    }
    taken.push_back({.block = fault.block, .write = fault.write});
  }
  faults_.put_back();
  if (!taken.empty()) {
    state_.engine.thread_faults(state_.launches.latest(), taken);
  }
}

}  // namespace spillway::host
