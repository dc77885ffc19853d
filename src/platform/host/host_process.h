// The process on the host: its forks, its end, and who else reaches its memory. Layer: platform,
// host. docs/host.md.
#pragma once

#include <vector>

#include "platform/common/program_process.h"
#include "platform/host/correlator.h"
#include "platform/host/fork/fork_server.h"
#include "platform/host/host_state.h"

namespace spillway::host {

class HostProcess final : public ProgramProcess {
 public:
  // All of them must outlive it.
  HostProcess(HostState& state, Correlator& correlator, ForkServer& forks)
      : state_(state), correlator_(correlator), forks_(forks) {}

  // Without fork events the space stays the parent's: the system ends a child that touches it.
  void before_fork() override SPILLWAY_ACQUIRE(state_.mutex);
  void after_fork() override SPILLWAY_RELEASE(state_.mutex);
  void in_child() override SPILLWAY_REQUIRES(state_.mutex);
  void before_end() override { forks_.give_all(); }
  void keep_no_frames() override { state_.pages.keep_no_frames(); }
  void expect_pins() override { state_.pages.expect_pins(); }
  [[nodiscard]] std::vector<int> descriptors() const override { return {state_.userfault.fd()}; }

 private:
  void keep_addresses_taken();

  HostState& state_;
  Correlator& correlator_;
  ForkServer& forks_;
  bool is_child_ SPILLWAY_GUARDED_BY(state_.mutex) = false;
};

}  // namespace spillway::host
