// Launches that run at the host: where their operands lie in host memory, and who waits for that.
// Layer: platform, host. docs/near-memory.md. With the platform's lock held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "platform/common/failures.h"
#include "platform/common/lower_places.h"
#include "platform/common/process/undisturbed_mutex.h"
#include "platform/common/program_platform.h"
#include "platform/common/stall_clock.h"
#include "platform/host/pages/address_space.h"
#include "policy/updates/update_balance.h"

namespace spillway::host {

class HostUpdates {
 public:
  // All of them must outlive it. `host_memory`: where places in host memory begin.
  HostUpdates(Engine& engine, const AddressSpace& addresses, LowerPlaces& places,
              Failures& failures, StallClock& stalls, char* host_memory)
      : engine_(engine),
        addresses_(addresses),
        places_(places),
        failures_(failures),
        stalls_(stalls),
        host_memory_(host_memory) {}

  // Tags of launches that are updates.
  static constexpr std::uint64_t kTag = std::uint64_t{1} << 63U;

  // While this holds no update begins: a fork is about to be made.
  void stop_beginning(bool stop) { stopped_ = stop; }
  // Updates whose data has not come to host memory do without. False if there is none.
  bool withdraw_waiting();

  // See ProgramPlatform. `mutex` is the platform's, and is let go while it waits.
  std::optional<UpdateId> begin(std::span<const ProgramOperand> operands);
  std::vector<Extents> extents(UpdateId update, UndisturbedMutex& mutex) SPILLWAY_REQUIRES(mutex);
  void end(UpdateId update);
  [[nodiscard]] bool any() const { return !running_.empty(); }

  // Every transfer, as it begins and as it has ended: which measures what the two sides cost.
  void transfer_began(const Transfer& transfer);
  void transfer_ended(const Transfer& transfer, bool moved);

  // Mechanism::release_launch of one of these tags.
  void released(std::uint64_t tag);
  // Mechanism::zero_at_host.
  void zero(BlockId id);

 private:
  struct Running {
    LaunchId launch = kNoLaunch;
    std::vector<ProgramOperand> operands;
    Bytes host_bytes = 0;    // UpdateBalance::Placement
    TimeNs computes_ns = 0;  // since when
    bool ready = false;
    bool withdrawn = false;
  };
  [[nodiscard]] std::optional<Launch> launch_of(std::span<const ProgramOperand> operands) const;
  [[nodiscard]] char* at_host(BlockId id) const {
    return host_memory_ + places_.at(id, Tier::kHost);
  }
  // How long an update may wait for its data. After that it runs where the data is, which is as
  // right.
  static constexpr TimeNs kLongestWaitNs = 2 * kNsPerS;
  void withdraw(Running& running);
  void take_from_children(BlockId id);
  void take_place(BlockId id);
  [[nodiscard]] Extents extents_of(const ProgramOperand& operand);

  Engine& engine_;
  const AddressSpace& addresses_;
  LowerPlaces& places_;
  Failures& failures_;
  StallClock& stalls_;
  char* host_memory_;
  UpdateBalance balance_{UpdateBalance::Device::kHostMemory};
  std::map<UpdateId, Running> running_;
  UpdateId last_ = 0;
  bool stopped_ = false;
  std::condition_variable ready_;
};

}  // namespace spillway::host
