// The correlator: the thread that takes faults and launches to the engine, and so to the policy
// (DeepUM section 3, figure 4). Layer: platform, host.
#pragma once

#include <atomic>
#include <thread>

#include "platform/common/process/wake_up.h"
#include "platform/common/storage/transfer_workers.h"
#include "platform/host/faults/fault_reader.h"
#include "platform/host/faults/pending_faults.h"
#include "platform/host/host_state.h"
#include "platform/host/progress.h"

namespace spillway::host {

class Correlator {
 public:
  // Both must outlive it.
  Correlator(HostState& state, Progress& progress) : state_(state), progress_(progress) {}

  // The thread, from `start` to `stop`. Reader and workers must live as long.
  void start(FaultReader& reader, TransferWorkers& workers);
  void stop();
  // There is something to take up. Any thread's.
  void wake() { wake_.call(); }
  [[nodiscard]] WakeUp& waker() { return wake_; }
  // With the platform's lock held: it takes up nothing until it is let go.
  void hold() { held_ = true; }
  void let_go() { held_ = false; }
  // That the thread has run on a processor.
  [[nodiscard]] TimeNs processor_ns() const { return spillway::processor_ns(thread_); }

 private:
  void correlate(FaultReader& reader, TransferWorkers& workers);
  void take_faults(TransferWorkers& workers) SPILLWAY_REQUIRES(state_.mutex);

  HostState& state_;
  Progress& progress_;
  bool held_ = false;
  PendingFaults faults_;  // the thread's
  WakeUp wake_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace spillway::host
