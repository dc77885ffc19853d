// See event_log.h.
#include "platform/common/event_log.h"

#include <algorithm>

namespace spillway {

void EventLog::launch_began(std::uint32_t stream, LogRow row, std::string_view name, TimeNs at_ns) {
  const MutexLock lock(mutex_);
  if (row >= events_.names.size()) {
    events_.names.resize(row + std::size_t{1});
  }
  if (events_.names[row].empty()) {
    events_.names[row] = name;
  }
  streams_[stream].running.push_back(
      {.stream = stream, .row = row, .issued_ns = at_ns, .begin_ns = at_ns, .end_ns = 0});
}

void EventLog::launch_ended(std::uint32_t stream, TimeNs at_ns) {
  const MutexLock lock(mutex_);
  Stream& on = streams_[stream];
  if (on.running.empty()) {
    return;
  }
  LoggedLaunch launch = on.running.front();
  on.running.pop_front();
  launch.begin_ns = std::max(launch.begin_ns, on.last_end_ns);
  launch.end_ns = std::max(at_ns, launch.begin_ns);
  on.last_end_ns = launch.end_ns;
  if (events_.launches.size() < most_) {
    events_.launches.push_back(launch);
  } else {
    ++events_.dropped_launches;
  }
}

void EventLog::transferred(const LoggedTransfer& transfer) {
  const MutexLock lock(mutex_);
  if (events_.transfers.size() < most_) {
    events_.transfers.push_back(transfer);
  } else {
    ++events_.dropped_transfers;
  }
}

void EventLog::waited(LogRow row, LoggedWait::For what, TimeNs begin_ns, TimeNs end_ns) {
  const MutexLock lock(mutex_);
  if (events_.waits.size() < most_) {
    events_.waits.push_back({.row = row, .what = what, .begin_ns = begin_ns, .end_ns = end_ns});
  } else {
    ++events_.dropped_waits;
  }
}

LoggedEvents EventLog::events() const {
  const MutexLock lock(mutex_);
  return events_;
}

}  // namespace spillway
