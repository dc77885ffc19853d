// See waiting_threads.h.
#include "platform/host/faults/waiting_threads.h"

#include "base/grown_at.h"
#include "platform/common/process/clock.h"

namespace spillway::host {

bool WaitingThreads::begin(const FaultRecord& fault, LogRow during) {
  Stop& stop = grown_at(stops_, fault.block);
  if (stop.awaited) {
    return false;
  }
  stop = {.awaited = true, .during = during, .since_ns = fault.at_ns};
  stalls_.begin(fault.at_ns);
  if (pages_.there(fault.block)) {
    ++write_faults_;
    pages_.set_source(fault.block, Source::kZeros);
  } else {
    ++page_faults_;
  }
  return true;
}

void WaitingThreads::end(BlockId block) {
  if (block >= stops_.size() || !stops_[block].awaited) {
    return;
  }
  Stop& stop = stops_[block];
  stop.awaited = false;
  userfault_.wake(addresses_.address_of(block), kBlockBytes);
  const TimeNs here_ns = now_ns() - stop.since_ns;
  waited_ns_ += here_ns;
  stalls_.end();
  log_.waited(stop.during, pages_.source(block), here_ns);
}

}  // namespace spillway::host
