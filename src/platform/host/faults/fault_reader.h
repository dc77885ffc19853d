// The thread that reads the program's page faults from the kernel, and the queue that it puts them
// into. Layer: platform, host.
#pragma once

#include <atomic>
#include <thread>

#include "base/ids.h"
#include "base/spsc_queue.h"
#include "base/units.h"
#include "platform/common/process/descriptor.h"
#include "platform/common/process/service_thread.h"
#include "platform/common/process/wake_up.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/fork/fork_server.h"
#include "platform/host/pages/address_space.h"

namespace spillway::host {

struct FaultRecord {
  BlockId block = 0;
  bool write = false;
  bool missing = false;    // the page was not there; else it was, and may not be written
  std::uint32_t page = 0;  // of the block
  TimeNs at_ns = 0;        // it was read
};

class FaultReader {
 public:
  // All of them must outlive it. `wake`: called when there are new faults. Forks that the kernel
  // reports between them go to `forks`.
  FaultReader(const Userfault& userfault, const AddressSpace& addresses, ForkServer& forks,
              WakeUp& wake);
  ~FaultReader();
  FaultReader(const FaultReader&) = delete;
  FaultReader& operator=(const FaultReader&) = delete;

  // The next fault; false if there is none. One thread's at a time.
  bool next(FaultRecord& record) { return queue_.pop(record); }
  // That the thread has run on a processor.
  [[nodiscard]] TimeNs processor_ns() const { return spillway::processor_ns(thread_); }

 private:
  void read_until_stopped();
  void read_once();

  SpscQueue<FaultRecord> queue_;
  const Userfault& userfault_;
  const AddressSpace& addresses_;
  ForkServer& forks_;
  WakeUp& wake_;
  Descriptor stop_event_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace spillway::host
