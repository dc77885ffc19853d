// Launches on a device in virtual time that runs behind its program: when each starts, and how long
// it takes. Layer: platform, simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "machine/machine.h"
#include "platform/sim/event_queue.h"
#include "platform/sim/frame_contents.h"
#include "platform/sim/handle_thread.h"
#include "platform/sim/shared_link.h"
#include "platform/sim/simulated_streams.h"
#include "platform/sim/simulated_transfers.h"
#include "policy/updates/update_balance.h"

namespace spillway::sim {

// How a launch was served. Times are from the simulation's start.
struct LaunchTiming {
  std::uint64_t number = 0;  // of issue, from 1
  TimeNs issued_ns = 0;
  TimeNs ready_ns = 0;  // all blocks resident
  TimeNs finished_ns = 0;
  TimeNs duration_ns = 0;  // with every operand resident
  Tier runs_at = Tier::kDevice;
};

class SimulatedLaunches {
 public:
  // What it works with, all of which must outlive it.
  struct Parts {
    const Machine& machine;
    Engine& engine;
    EventQueue& clock;
    FrameContents& contents;
    SharedLink& link;
    HandleThread& handles;
    SimulatedTransfers& transfers;
    UpdateBalance& balance;
  };
  // `hold`: SimulatorOptions::hold_launches. `finished` is called as each launch ends.
  SimulatedLaunches(const Parts& parts, bool hold,
                    std::function<void(const LaunchTiming&)> finished);

  // --- The program: functions of Simulator of the same names.
  LaunchState issue(Launch launch, TimeNs duration_ns);
  [[nodiscard]] SignalId create_signal();
  void record(SignalId signal, StreamId stream);
  void wait(SignalId signal, StreamId stream);

  // --- The engine: functions of Mechanism. A launch's tag is its slot.
  void faults_served(std::uint64_t launch);
  void release(std::uint64_t launch, std::span<const TransferId> transfers);
  // These blocks get new memory: a launch that stands at the head of its stream and waits for them
  // has faulted on them.
  void zeroed(std::span<const BlockId> blocks);

  // --- The device
  void transfer_ended(const SimulatedTransfers::Ended& ended);
  void handle_is_there(BlockId block, std::span<const std::uint32_t> slots);
  // Starts the launch if nothing is in its way.
  void try_start(std::uint32_t slot);
  // At Event::Kind::kLaunchFinishes.
  void finish(std::uint32_t slot);

  // That have been issued so far: the number of the last one.
  [[nodiscard]] std::uint64_t issued() const { return next_number_ - 1; }
  // Issued and not finished; of those, that run on the device.
  [[nodiscard]] std::size_t running() const { return running_count_; }
  [[nodiscard]] std::size_t running_on_device() const { return running_count_ - updates_; }

 private:
  struct Running {
    Launch launch;
    LaunchId id = kNoLaunch;
    LaunchTiming timing;
    std::optional<TimeNs> faults_served_ns;
    std::vector<BlockId> undefined;  // discarded since the launch before that named them
    std::uint32_t zeroed_on_fault = 0;
    std::vector<TransferId> arriving;  // that it must wait for
    std::vector<BlockId> unbacked;     // whose handles it must wait for
    bool live = false;
    bool released = false;
    bool started = false;
    bool host_mapped = false;  // it uses host memory over the link
  };

  std::uint32_t take_slot();
  [[nodiscard]] bool updates_take_time() const {
    return parts_.machine.host.update_bytes_per_s() > 0;
  }
  void begin(const Running& run);
  void note_host_mapped();

  Parts parts_;
  bool hold_;
  std::function<void(const LaunchTiming&)> finished_;
  SimulatedStreams streams_;
  std::vector<Running> running_;  // by slot
  std::vector<std::uint32_t> free_slots_;
  std::size_t running_count_ = 0;
  std::size_t updates_ = 0;  // of those, that run at the host
  std::uint64_t next_number_ = 1;
  TimeNs host_free_ns_ = 0;      // when the last update that has begun will have ended
  Bytes host_mapped_bytes_ = 0;  // that the host tier's capacity has been lowered by
};

}  // namespace spillway::sim
