// A machine in virtual time that drives the engine: launches take time, bytes take time, faults
// take time. Layer: platform, simulator. It decides nothing about migration. What breaks what
// FrameContents checks stops the simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "machine/machine.h"
#include "platform/sim/event_queue.h"
#include "platform/sim/frame_contents.h"
#include "platform/sim/handle_thread.h"
#include "platform/sim/shared_link.h"
#include "platform/sim/simulated_launches.h"
#include "platform/sim/simulated_transfers.h"
#include "platform/sim/stopped_threads.h"
#include "policy/registry.h"
#include "policy/updates/update_balance.h"

namespace spillway::sim {

struct SimulatorOptions {
  EngineOptions engine;
  FailureModel failures;
  // A launch waits until all its blocks are there even on a machine that could replay faults: for
  // programs that manage memory themselves, without paging.
  bool hold_launches = false;
};

// The largest block of a program's allocations on a machine: a part of its device memory, for a
// few blocks would leave no room to move in.
[[nodiscard]] Bytes block_bytes(const Machine& machine);
// The engine options that a machine implies.
[[nodiscard]] EngineOptions engine_options(const Machine& machine);
// Those, and what a policy assumes of the world around it.
[[nodiscard]] SimulatorOptions simulator_options(const Machine& machine,
                                                 const PolicyTraits& traits);

class Simulator final : private Mechanism {
 public:
  // The policy must outlive the simulator.
  Simulator(const Machine& machine, const SimulatorOptions& options, Policy& policy);

  // The program's side: memory and hints go straight to the engine.
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  Result<AllocationId> allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes = kBlockBytes);
  void free(AllocationId id);
  void discard(AllocationId id, DiscardMode mode);
  // Both of what was discarded lazily: it is used again.
  void prefetch(AllocationId id);
  void reuse(AllocationId id);

  // Issues the launch now; duration_ns is its time with every operand resident. It runs behind
  // those of its stream, if it has one. kTooLarge leaves everything as it was. launch.tag is the
  // simulator's.
  LaunchState issue(Launch launch, TimeNs duration_ns);
  // Something that happens on the stream when everything that was issued to it has run. A signal
  // may be waited for before it is recorded.
  [[nodiscard]] SignalId create_signal();
  void record(SignalId signal, StreamId stream);
  // What is issued to the stream from now on runs after the signal.
  void wait(SignalId signal, StreamId stream);

  // A thread uses a block outside launches, on a platform that tracks writes: at once if it may;
  // else it stops there, until the engine has mapped the block. on_touched says when it has.
  // No launch in flight may write the block, nor name it if the thread writes it.
  void touch(std::uint64_t thread, BlockId id, bool write);
  [[nodiscard]] std::size_t stopped_threads() const { return threads_.count(); }

  // Where updates run: it hears of transfers, and of updates that run at the host, if the machine
  // says what they take there.
  [[nodiscard]] UpdateBalance& balance() { return balance_; }

  // Lets virtual time pass to the next event. False when there is none.
  bool step();
  // Steps until every issued launch has finished. Fails if the program cannot go on, or if a block
  // was lost.
  Status run_until_idle();
  // Steps until fewer than so many launches are issued and have not finished. Fails likewise.
  Status run_until_fewer_than(std::size_t launches);
  // One event, of which there must be one. Fails likewise.
  Status run_a_step();
  // Steps until every launch on the device has finished. Fails likewise.
  Status run_until_device_idle();
  // Lets everything happen that happens before this time, and time pass until then. Fails likewise.
  Status run_until(TimeNs at_ns);

  [[nodiscard]] TimeNs now_ns() const { return clock_.now_ns(); }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] const SimulatedLaunches& launches() const { return launches_; }
  [[nodiscard]] const SimulatedTransfers& transfers() const { return transfers_; }
  [[nodiscard]] const FairShare& links() const { return link_.flows(); }
  [[nodiscard]] const HandlePool& handles() const { return handles_.pool(); }
  // The first contents error, if any.
  [[nodiscard]] const std::optional<Error>& broken() const { return contents_.broken(); }

  // Called as each launch finishes.
  std::function<void(const LaunchTiming&)> on_finished;
  std::function<void(std::uint64_t thread)> on_touched;
  // Called as the contents of an allocation are given up: whoever listens says what can be made
  // again, and does that before it issues anything that names it.
  std::function<void(AllocationId)> on_gave_up;

 private:
  void start_transfer(const Transfer& transfer) override;
  void zero(std::span<const BlockId> blocks) override;
  void zero_at_host(std::span<const BlockId> blocks) override;
  void map(std::span<const BlockId> blocks, bool writable) override;
  void unmap(std::span<const BlockId> blocks) override;
  void drop(std::span<const BlockId> blocks, Tier tier) override;
  void freed(AllocationId id) override { contents_.freed(id); }
  void gave_up(AllocationId id) override { on_gave_up(id); }
  void faults_served(std::uint64_t launch) override { launches_.faults_served(launch); }
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override {
    launches_.release(launch, transfers);
  }

  void end_transfer(std::uint32_t slot);
  [[nodiscard]] Status going() const;
  Status run_while(const std::function<bool()>& goes_on);

  Machine machine_;
  SimulatorOptions options_;
  Rng rng_;
  EventQueue clock_;
  UpdateBalance balance_;
  SharedLink link_;
  FrameContents contents_;
  HandleThread handles_;
  SimulatedTransfers transfers_;
  SimulatedLaunches launches_;
  StoppedThreads threads_;
  std::uint64_t events_ = 0;
  Engine engine_;
};

}  // namespace spillway::sim
