#include "platform/sim/shared_link.h"

#include <algorithm>

namespace spillway::sim {
namespace {

double both_ways_bytes_per_s(const Link& link) {
  const double alone_bytes_per_s = link.to_device_bytes_per_s + link.from_device_bytes_per_s;
  return link.both_ways_bytes_per_s > 0 ? link.both_ways_bytes_per_s : alone_bytes_per_s;
}

}  // namespace

SharedLink::SharedLink(const Machine& machine, EventQueue& clock)
    : link_(machine.link),
      clear_bytes_per_s_(machine.handles.clear_bytes_per_s),
      clock_(clock),
      flows_({machine.link.to_device_bytes_per_s, machine.link.from_device_bytes_per_s,
              machine.storage.read_bytes_per_s, machine.storage.write_bytes_per_s,
              both_ways_bytes_per_s(machine.link)}) {}

// The engine that copies in takes turns between copies and this.
void SharedLink::clear(Bytes bytes) {
  if (bytes == 0 || clear_bytes_per_s_ <= 0) {
    return;
  }
  cleared_ns_ = std::max(cleared_ns_, clock_.now_ns()) +
                static_cast<TimeNs>(static_cast<double>(bytes) / clear_bytes_per_s_ * 1e9);
  share();
  clock_.push(cleared_ns_, Event::Kind::kCleared, 0);
}

void SharedLink::cleared() {
  share();  // unless more has been released since
}

void SharedLink::launch_begins() {
  if (launches_++ == 0) {
    share();
  }
}

void SharedLink::launch_ends() {
  if (--launches_ == 0) {
    share();
  }
}

// What copies have of the link beside what is cleared and what launches use over it.
void SharedLink::share() {
  const double host_mapped_bytes_per_s = launches_ > 0 ? link_.host_mapped_bytes_per_s : 0;
  // Something is left even where launches could take all of it.
  const auto left = [&](double bytes_per_s) {
    constexpr double kLeastPart = 16;
    return std::max(bytes_per_s - host_mapped_bytes_per_s, bytes_per_s / kLeastPart);
  };
  const TimeNs now_ns = clock_.now_ns();
  const double clearing = now_ns < cleared_ns_ ? 2 : 1;
  flows_.set_bandwidth(Resource::kToDevice, left(link_.to_device_bytes_per_s) / clearing, now_ns);
  flows_.set_bandwidth(Resource::kFromDevice, left(link_.from_device_bytes_per_s), now_ns);
}

}  // namespace spillway::sim
