#include "platform/sim/simulated_launches.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/memory/for_each_block.h"

namespace spillway::sim {
namespace {

// How long a launch needs for what it uses of host memory over the link, both ways at once
// (docs/cuda.md). It uses no more of what it names than the device's memory could have given it in
// its own time, looked up in rows or not: of each operand the same part.
TimeNs host_mapped_ns(const Engine& engine, const Machine& machine, const Launch& launch,
                      TimeNs duration_ns) {
  if (engine.host_mapped_bytes() == 0) {
    return 0;
  }
  double named_bytes = 0;
  double host_mapped_bytes = 0;
  for_each_block(launch, [&](BlockId id, const Access& access) {
    const Block& block = engine.space().block(id);
    const bool both = access.mode == AccessMode::kReadWrite || access.mode == AccessMode::kExpose;
    const int ways = both ? 2 : 1;
    named_bytes += static_cast<double>(block.bytes) * ways;
    host_mapped_bytes += block.host_mapped ? static_cast<double>(block.bytes) : 0;
  });
  if (host_mapped_bytes == 0) {
    return 0;
  }
  const DeviceTier& device = machine.device;
  const double bytes_per_s = launch.sparse && device.row_bandwidth_bytes_per_s > 0
                                 ? device.row_bandwidth_bytes_per_s
                                 : device.zero_bandwidth_bytes_per_s;
  const double most_bytes = bytes_per_s * static_cast<double>(duration_ns) * 1e-9;
  const double part = most_bytes > 0 ? std::min(1.0, most_bytes / named_bytes) : 1;
  return static_cast<TimeNs>(host_mapped_bytes * part / machine.link.host_mapped_bytes_per_s * 1e9);
}

}  // namespace

SimulatedLaunches::SimulatedLaunches(const Parts& parts, bool hold,
                                     std::function<void(const LaunchTiming&)> finished)
    : parts_(parts),
      hold_(hold),
      finished_(std::move(finished)),
      streams_(parts.clock, [this](std::uint32_t slot) { try_start(slot); }) {}

std::uint32_t SimulatedLaunches::take_slot() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(running_.size()));
    running_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  running_[slot] = {};
  return slot;
}

LaunchState SimulatedLaunches::issue(Launch launch, TimeNs duration_ns) {
  const std::uint32_t slot = take_slot();
  launch.tag = slot;
  Running& run = running_[slot];
  run.launch = std::move(launch);
  if (run.launch.runs_at == Tier::kHost) {
    run.launch.stream = kNoStream;
  }
  run.timing = {.number = next_number_,
                .issued_ns = parts_.clock.now_ns(),
                .duration_ns = duration_ns,
                .runs_at = run.launch.runs_at};
  run.live = true;
  run.undefined = parts_.contents.issued(run.launch);
  streams_.add_launch(run.launch.stream, slot);
  const LaunchAdmission admission = parts_.engine.issue_launch(run.launch);
  if (admission.state == LaunchState::kTooLarge) {
    run.live = false;
    parts_.contents.refused(run.launch, run.undefined);
    free_slots_.push_back(slot);
    streams_.take_back_launch(run.launch.stream);
    return admission.state;
  }
  run.id = admission.id;
  ++next_number_;
  ++running_count_;
  updates_ += run.launch.runs_at == Tier::kHost ? 1U : 0U;
  return admission.state;
}

SignalId SimulatedLaunches::create_signal() {
  const SignalId signal = parts_.engine.create_signal();
  streams_.add_signal(signal);
  return signal;
}

void SimulatedLaunches::record(SignalId signal, StreamId stream) {
  streams_.add_record(signal, stream);
  parts_.engine.record_signal(signal, stream);
  streams_.advance(stream);
}

void SimulatedLaunches::wait(SignalId signal, StreamId stream) {
  streams_.add_wait(signal, stream);
  parts_.engine.wait_for_signal(signal, stream);
  streams_.advance(stream);
}

void SimulatedLaunches::faults_served(std::uint64_t launch) {
  running_[launch].faults_served_ns = parts_.clock.now_ns();
}

// A transfer that is over already is waited for by nobody.
void SimulatedLaunches::release(std::uint64_t launch, std::span<const TransferId> transfers) {
  const auto slot = static_cast<std::uint32_t>(launch);
  Running& run = running_[slot];
  assert(run.live && !run.started);
  run.released = true;
  run.arriving.clear();
  for (const TransferId id : transfers) {
    if (parts_.transfers.wait(id, slot)) {
      run.arriving.push_back(id);
    }
  }
  if (parts_.handles.is_used() && run.launch.runs_at == Tier::kDevice) {
    run.unbacked = parts_.handles.wait(run.launch, slot);
  }
  try_start(slot);
}

void SimulatedLaunches::zeroed(std::span<const BlockId> blocks) {
  std::uint32_t pinned = 0;
  for (const BlockId block : blocks) {
    pinned += parts_.engine.space().block(block).pins > 0 ? 1U : 0U;
  }
  if (pinned == 0) {
    return;
  }
  streams_.for_each_first([&](std::uint32_t slot) {
    Running& run = running_[slot];
    run.zeroed_on_fault += run.live && !run.started ? pinned : 0;
  });
}

void SimulatedLaunches::transfer_ended(const SimulatedTransfers::Ended& ended) {
  for (const std::uint32_t slot : ended.waiting) {
    Running& run = running_[slot];
    std::erase(run.arriving, ended.transfer.id);
    // After a failure it will be released again, behind other transfers.
    run.released = run.released && (!ended.failed || run.started);
  }
}

void SimulatedLaunches::handle_is_there(BlockId block, std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) {
    std::erase(running_[slot].unbacked, block);
    try_start(slot);
  }
}

// Far frames are the host's memory as well.
void SimulatedLaunches::note_host_mapped() {
  if (parts_.machine.link.host_mapped_bytes_per_s <= 0) {
    return;
  }
  const Bytes host_bytes = parts_.engine.capacity_bytes(Tier::kHost) + host_mapped_bytes_;
  if (const Bytes bytes = parts_.engine.host_mapped_bytes(); bytes != host_mapped_bytes_) {
    host_mapped_bytes_ = bytes;
    parts_.engine.set_capacity_below(Tier::kHost, host_bytes - std::min(host_bytes, bytes));
  }
  parts_.engine.set_host_mapped_capacity(
      host_bytes - std::min(host_bytes, parts_.engine.used_bytes(Tier::kHost)));
}

// When the launch will end. A machine that replays faults lets the launch run while blocks that
// were on their way arrive: it ends when its work is done and its last block is there, whichever is
// later; only what it had to fault on holds it up from the start. Zeroed blocks need no transfer,
// but each batch of them is handled like one of faults.
void SimulatedLaunches::try_start(std::uint32_t slot) {
  Running& run = running_[slot];
  if (!run.live || !run.released || run.started || !run.arriving.empty() || !run.unbacked.empty() ||
      !streams_.is_at_head(run.launch.stream, slot)) {
    return;
  }
  const TimeNs now_ns = parts_.clock.now_ns();
  run.started = true;
  run.timing.ready_ns = now_ns;
  begin(run);
  if (run.launch.runs_at == Tier::kHost && updates_take_time()) {
    host_free_ns_ = std::max(host_free_ns_, now_ns) + run.timing.duration_ns;
    parts_.clock.push(host_free_ns_, Event::Kind::kLaunchFinishes, slot);
    return;
  }
  const TimeNs free_ns = streams_.free_ns(run.launch.stream);
  const std::uint32_t batch = std::max(parts_.machine.faults.batch_blocks, 1U);
  const TimeNs zero_faults_ns =
      (run.zeroed_on_fault + batch - 1) / batch * parts_.machine.faults.latency_ns;
  const bool replay = parts_.machine.faults.model == FaultModel::kReplayable && !hold_;
  const TimeNs begins_ns =
      replay ? std::max(free_ns, run.faults_served_ns.value_or(run.timing.issued_ns)) : now_ns;
  const TimeNs host_mapped_until_ns =
      host_mapped_ns(parts_.engine, parts_.machine, run.launch, run.timing.duration_ns);
  run.host_mapped = host_mapped_until_ns > 0;
  if (run.host_mapped) {
    parts_.link.launch_begins();
  }
  const TimeNs works_until_ns =
      begins_ns + zero_faults_ns + std::max(run.timing.duration_ns, host_mapped_until_ns);
  parts_.clock.push(std::max(works_until_ns, now_ns), Event::Kind::kLaunchFinishes, slot);
}

// The launch begins to run.
void SimulatedLaunches::begin(const Running& run) {
  if (parts_.handles.is_used() && run.launch.runs_at == Tier::kDevice) {
    for_each_block(run.launch, [&](BlockId id, const Access&) {
      if (!parts_.handles.is_there(id)) {
        parts_.contents.fail(id, "a launch runs on a frame whose handle is not mapped yet");
      }
    });
  }
  parts_.contents.begins(run.launch, run.undefined);
}

void SimulatedLaunches::finish(std::uint32_t slot) {
  Running& run = running_[slot];
  parts_.contents.ends(run.launch);
  run.live = false;
  if (run.host_mapped) {
    parts_.link.launch_ends();
  }
  const StreamId stream = run.launch.stream;
  LaunchTiming timing = run.timing;
  timing.finished_ns = parts_.clock.now_ns();
  const LaunchId id = run.id;
  --running_count_;
  if (timing.runs_at == Tier::kHost) {
    --updates_;
    if (updates_take_time()) {
      parts_.balance.update_ended(works_of(run.launch, parts_.engine.space()).at_host.host_bytes,
                                  timing.duration_ns);
    }
  }
  streams_.launch_ended(stream, slot);
  parts_.engine.end_launch(id, timing.duration_ns);
  note_host_mapped();
  free_slots_.push_back(slot);
  streams_.advance(stream);
  finished_(timing);
}

}  // namespace spillway::sim
