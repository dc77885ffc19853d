// Threads of the program that have stopped at a block, since when, and during which launch.
// Layer: platform, host. With the platform's lock held.
#pragma once

#include <vector>

#include "base/ids.h"
#include "platform/common/launch_log.h"
#include "platform/common/stall_clock.h"
#include "platform/host/faults/fault_reader.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/pages/address_space.h"
#include "platform/host/pages/device_pages.h"

namespace spillway::host {

class WaitingThreads {
 public:
  // All of them must outlive it.
  WaitingThreads(const Userfault& userfault, const AddressSpace& addresses, DevicePages& pages,
                 LaunchLog& log, StallClock& stalls)
      : userfault_(userfault), addresses_(addresses), pages_(pages), log_(log), stalls_(stalls) {}

  // A thread has stopped. False if another one stands there already.
  bool begin(const FaultRecord& fault, LogRow during);
  // The block is there, or gone: whoever stands there goes on.
  void end(BlockId block);

  // Threads that stopped at a block that was not there, or was, to be written for the first time.
  [[nodiscard]] std::uint64_t page_faults() const { return page_faults_; }
  [[nodiscard]] std::uint64_t write_faults() const { return write_faults_; }
  [[nodiscard]] TimeNs waited_ns() const { return waited_ns_; }  // of all stops, together

 private:
  struct Stop {
    bool awaited = false;
    LogRow during = kNoLogRow;
    TimeNs since_ns = 0;
  };
  const Userfault& userfault_;
  const AddressSpace& addresses_;
  DevicePages& pages_;
  LaunchLog& log_;
  StallClock& stalls_;
  std::vector<Stop> stops_;  // by block
  std::uint64_t page_faults_ = 0;
  std::uint64_t write_faults_ = 0;
  TimeNs waited_ns_ = 0;
};

}  // namespace spillway::host
