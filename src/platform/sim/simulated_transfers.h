// Transfers between the tiers of a machine in virtual time: how long each takes, which of them
// fails, and what it does to the flash. Layer: platform, simulator. It knows nothing of what the
// blocks hold.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "machine/machine.h"
#include "platform/sim/event_queue.h"
#include "platform/sim/flash.h"
#include "platform/sim/link.h"
#include "policy/updates/update_balance.h"

namespace spillway::sim {

// Failures to inject, each with its probability per transfer; all 0 is a machine without faults.
struct FailureModel {
  double transfer_fails = 0;
  double storage_write_fails = 0;  // besides those
  double storage_slow = 0;         // a storage transfer takes 1 to 100 ms longer
  std::uint64_t seed = 1;
};

class SimulatedTransfers {
 public:
  // What it works with, all of which must outlive it.
  struct Parts {
    const Machine& machine;
    const FailureModel& failures;
    Rng& rng;
    const Engine& engine;
    const EventQueue& clock;
    FairShare& links;
    UpdateBalance& balance;  // hears of transfers, if updates take time on this machine
  };
  explicit SimulatedTransfers(const Parts& parts) : parts_(parts), flash_(parts.machine.storage) {}

  // The engine has ordered the transfer: it is under way, and its bytes flow after the latency,
  // when `flow_behind` is called.
  struct Begun {
    std::uint32_t slot = 0;
    TimeNs latency_ns = 0;
  };
  [[nodiscard]] Begun begin(const Transfer& transfer);
  // Its bytes flow when those of its kind that came before have flowed. FairShare gives the slot
  // back when they have.
  void flow_behind(std::uint32_t slot);
  struct Ended {
    Transfer transfer;
    bool failed = false;
    std::vector<std::uint32_t> waiting;  // who has waited for it
  };
  [[nodiscard]] Ended end(std::uint32_t slot);

  // The launch in this slot waits for the transfer; false: it is over already.
  [[nodiscard]] bool wait(TransferId id, std::uint32_t launch_slot);

  // Time during which at least one transfer was under way.
  [[nodiscard]] TimeNs busy_ns() const;
  [[nodiscard]] Flash& flash() { return flash_; }
  [[nodiscard]] const Flash& flash() const { return flash_; }

 private:
  struct Moving {
    Transfer transfer;
    ResourceSet resources = 0;
    bool fails = false;
  };

  [[nodiscard]] TimeNs write_to_flash(Moving& moving);
  std::deque<std::uint32_t>& link_queue_of(const Transfer& transfer);
  void flow(std::uint32_t slot);
  [[nodiscard]] bool tell_balance() const { return parts_.machine.host.update_bytes_per_s() > 0; }

  Parts parts_;
  Flash flash_;
  std::vector<Moving> moving_;  // by slot
  std::vector<std::uint32_t> free_slots_;
  // Transfers of one kind between two tiers follow each other, as on a stream of a copy engine;
  // only the first of each carries bytes. Different streams share the links fairly.
  std::array<std::deque<std::uint32_t>, kTierCount * kTierCount * 4> link_queues_;
  std::unordered_set<TransferId> under_way_;
  // Which released launches wait for a transfer.
  std::unordered_map<TransferId, std::vector<std::uint32_t>> waiting_for_;
  TimeNs busy_since_ns_ = 0;
  TimeNs busy_ns_ = 0;
};

}  // namespace spillway::sim
