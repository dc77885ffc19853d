// Faults that have been read and are not answered yet: a machine's faults take a while, and some
// wait for what moves. Layer: platform, host. The correlator's own.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/units.h"
#include "platform/host/faults/fault_reader.h"

namespace spillway::host {

class PendingFaults {
 public:
  // In the order in which they happened.
  void add(const FaultRecord& fault) { faults_.push_back(fault); }
  // When the one that is next happened; nullopt if there is none.
  [[nodiscard]] std::optional<TimeNs> next_at_ns() const {
    return faults_.empty() ? std::nullopt : std::optional(faults_.front().at_ns);
  }
  // The next one, if it happened until then. It is pending no more.
  bool take(TimeNs until_ns, FaultRecord& fault) {
    if (faults_.empty() || faults_.front().at_ns > until_ns) {
      return false;
    }
    fault = faults_.front();
    faults_.pop_front();
    return true;
  }
  // One that was taken cannot be answered yet: it is pending again from `put_back` on, last of all.
  void postpone(const FaultRecord& fault) { postponed_.push_back(fault); }
  void put_back() {
    faults_.insert(faults_.end(), postponed_.begin(), postponed_.end());
    postponed_.clear();
  }

 private:
  std::deque<FaultRecord> faults_;
  std::vector<FaultRecord> postponed_;
};

}  // namespace spillway::host
