// Launches on a device that runs behind its program: streams, signals, when a launch starts and how
// long it takes. See simulator.h.
#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/memory/for_each_block.h"
#include "platform/sim/simulator.h"

namespace spillway::sim {

std::uint32_t Simulator::take_slot() {
  if (free_running_.empty()) {
    free_running_.push_back(static_cast<std::uint32_t>(running_.size()));
    running_.emplace_back();
  }
  const std::uint32_t slot = free_running_.back();
  free_running_.pop_back();
  running_[slot] = {};
  return slot;
}

Simulator::Stream& Simulator::stream_at(StreamId id) {
  if (id >= streams_.size()) {
    streams_.resize(id + std::size_t{1});
  }
  return streams_[id];
}

LaunchState Simulator::issue(Launch launch, TimeNs duration_ns) {
  const std::uint32_t slot = take_slot();
  launch.tag = slot;
  Running& run = running_[slot];
  run.launch = std::move(launch);
  if (run.launch.runs_at == Tier::kHost) {
    run.launch.stream = kNoStream;
  }
  run.timing = {.number = next_number_,
                .issued_ns = now_ns_,
                .duration_ns = duration_ns,
                .runs_at = run.launch.runs_at};
  run.live = true;
  note_names(run);
  const StreamId stream = run.launch.stream;
  if (stream != kNoStream) {
    stream_at(stream).items.push_back({.step = Step::kLaunch, .what = slot});
  } else {
    unordered_.push_back(slot);
  }
  const LaunchAdmission admission = engine_.issue_launch(run.launch);
  if (admission.state == LaunchState::kTooLarge) {
    run.live = false;
    forget_names(run.launch);
    for (const BlockId id : run.undefined) {
      tokens(id).undefined_next = true;
    }
    free_running_.push_back(slot);
    if (stream != kNoStream) {
      streams_[stream].items.pop_back();
    } else {
      unordered_.pop_back();
    }
    return admission.state;
  }
  run.id = admission.id;
  ++next_number_;
  ++issued_;
  updates_ += running_[slot].launch.runs_at == Tier::kHost ? 1U : 0U;
  return admission.state;
}

SignalId Simulator::create_signal() {
  const SignalId signal = engine_.create_signal();
  signals_.emplace(signal, std::vector<StreamId>());
  return signal;
}

void Simulator::record(SignalId signal, StreamId stream) {
  stream_at(stream).items.push_back({.step = Step::kRecord, .what = signal});
  engine_.record_signal(signal, stream);
  advance(stream);
}

void Simulator::wait(SignalId signal, StreamId stream) {
  stream_at(stream).items.push_back({.step = Step::kWait, .what = signal});
  engine_.wait_for_signal(signal, stream);
  advance(stream);
}

bool Simulator::waits_for_signals() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.held; });
}

// Passes what the stream can pass now.
void Simulator::advance(StreamId id) {
  while (!streams_[id].items.empty() && !streams_[id].held) {
    const Item item = streams_[id].items.front();
    if (item.step == Step::kLaunch) {
      try_start(static_cast<std::uint32_t>(item.what));
      return;
    }
    streams_[id].items.pop_front();
    const auto signal = signals_.find(item.what);
    if (signal == signals_.end()) {
      continue;
    }
    if (item.step == Step::kWait) {
      streams_[id].held = true;
      signal->second.push_back(id);
      return;
    }
    const std::vector<StreamId> waiting = std::move(signal->second);
    signals_.erase(signal);
    for (const StreamId other : waiting) {
      streams_[other].held = false;
      streams_[other].free_ns = std::max(streams_[other].free_ns, now_ns_);
      advance(other);
    }
  }
}

bool Simulator::at_head(std::uint32_t slot) const {
  const StreamId id = running_[slot].launch.stream;
  if (id == kNoStream) {
    return true;
  }
  const Stream& stream = streams_[id];
  return !stream.held && !stream.items.empty() && stream.items.front().step == Step::kLaunch &&
         stream.items.front().what == slot;
}

void Simulator::faults_served(std::uint64_t launch) { running_[launch].faults_served_ns = now_ns_; }

// One that is over already is waited for by nobody.
void Simulator::release_launch(std::uint64_t launch, std::span<const TransferId> transfers) {
  const auto slot = static_cast<std::uint32_t>(launch);
  Running& run = running_[slot];
  assert(run.live && !run.started);
  run.released = true;
  run.arriving.clear();
  for (const TransferId id : transfers) {
    if (under_way_.contains(id)) {
      run.arriving.push_back(id);
      waiting_for_[id].push_back(slot);
    }
  }
  if (has_handles() && run.launch.runs_at == Tier::kDevice) {
    wait_for_handles(slot);
  }
  try_start(slot);
}

// How long a launch needs for what it uses of host memory over the link, both ways at once
// (docs/cuda.md). It uses no more of what it names than the device's memory could have given it in
// its own time, looked up in rows or not: of each operand the same part.
TimeNs Simulator::host_mapped_ns(const Launch& launch, TimeNs duration_ns) const {
  if (engine_.host_mapped_bytes() == 0) {
    return 0;
  }
  double named_bytes = 0;
  double host_mapped_bytes = 0;
  for_each_block(launch, [&](BlockId id, const Access& access) {
    const Block& block = engine_.space().block(id);
    const bool both = access.mode == AccessMode::kReadWrite || access.mode == AccessMode::kExpose;
    const int ways = both ? 2 : 1;
    named_bytes += static_cast<double>(block.bytes) * ways;
    host_mapped_bytes += block.host_mapped ? static_cast<double>(block.bytes) : 0;
  });
  if (host_mapped_bytes == 0) {
    return 0;
  }
  const DeviceTier& device = machine_.device;
  const double bytes_per_s = launch.sparse && device.row_bandwidth_bytes_per_s > 0
                                 ? device.row_bandwidth_bytes_per_s
                                 : device.zero_bandwidth_bytes_per_s;
  const double most_bytes = bytes_per_s * static_cast<double>(duration_ns) * 1e-9;
  const double part = most_bytes > 0 ? std::min(1.0, most_bytes / named_bytes) : 1;
  return static_cast<TimeNs>(host_mapped_bytes * part / machine_.link.host_mapped_bytes_per_s *
                             1e9);
}

// Far frames are the host's memory as well.
void Simulator::note_host_mapped() {
  if (machine_.link.host_mapped_bytes_per_s <= 0) {
    return;
  }
  const Bytes host_bytes = engine_.capacity_bytes(Tier::kHost) + host_mapped_bytes_;
  if (const Bytes bytes = engine_.host_mapped_bytes(); bytes != host_mapped_bytes_) {
    host_mapped_bytes_ = bytes;
    engine_.set_capacity_below(Tier::kHost, host_bytes - std::min(host_bytes, bytes));
  }
  engine_.set_host_mapped_capacity(host_bytes -
                                   std::min(host_bytes, engine_.used_bytes(Tier::kHost)));
}

// When the launch will end. A machine that replays faults lets the launch run while blocks that
// were on their way arrive: it ends when its work is done and its last block is there, whichever is
// later; only what it had to fault on holds it up from the start. Zeroed blocks need no transfer,
// but each batch of them is handled like one of faults.
void Simulator::try_start(std::uint32_t slot) {
  Running& run = running_[slot];
  if (!run.live || !run.released || run.started || !run.arriving.empty() || !run.unbacked.empty() ||
      !at_head(slot)) {
    return;
  }
  run.started = true;
  run.timing.ready_ns = now_ns_;
  take_up(run);
  if (run.launch.runs_at == Tier::kHost && updates_take_time()) {
    host_free_ns_ = std::max(host_free_ns_, now_ns_) + run.timing.duration_ns;
    push(host_free_ns_, EventKind::kLaunchFinishes, slot);
    return;
  }
  const TimeNs free_ns = run.launch.stream == kNoStream ? 0 : streams_[run.launch.stream].free_ns;
  const std::uint32_t batch = std::max(machine_.faults.batch_blocks, 1U);
  const TimeNs zero_faults_ns =
      (run.zeroed_on_fault + batch - 1) / batch * machine_.faults.latency_ns;
  const bool replay = machine_.faults.model == FaultModel::kReplayable && !options_.hold_launches;
  const TimeNs begins_ns =
      replay ? std::max(free_ns, run.faults_served_ns.value_or(run.timing.issued_ns)) : now_ns_;
  const TimeNs host_mapped_until_ns = host_mapped_ns(run.launch, run.timing.duration_ns);
  run.host_mapped = host_mapped_until_ns > 0;
  if (run.host_mapped && host_mapped_launches_++ == 0) {
    share_link();
  }
  const TimeNs works_until_ns =
      begins_ns + zero_faults_ns + std::max(run.timing.duration_ns, host_mapped_until_ns);
  push(std::max(works_until_ns, now_ns_), EventKind::kLaunchFinishes, slot);
}

void Simulator::finish(std::uint32_t slot) {
  Running& run = running_[slot];
  leave(run.launch);
  forget_names(run.launch);
  run.live = false;
  if (run.host_mapped && --host_mapped_launches_ == 0) {
    share_link();
  }
  const StreamId stream = run.launch.stream;
  LaunchTiming timing = run.timing;
  timing.finished_ns = now_ns_;
  const LaunchId id = run.id;
  --issued_;
  if (timing.runs_at == Tier::kHost) {
    --updates_;
    if (updates_take_time()) {
      balance_.update_ended(works_of(run.launch, engine_.space()).at_host.host_bytes,
                            timing.duration_ns);
    }
  }
  if (stream != kNoStream) {
    streams_[stream].items.pop_front();
    streams_[stream].free_ns = now_ns_;
  } else {
    std::erase(unordered_, slot);
  }
  engine_.end_launch(id, timing.duration_ns);
  note_host_mapped();
  free_running_.push_back(slot);
  if (stream != kNoStream) {
    advance(stream);
  }
  if (on_finished) {
    on_finished(timing);
  }
}

void Simulator::transfer_is_over(const Transfer& transfer, bool failed) {
  const TransferId id = transfer.id;
  under_way_.erase(id);
  std::vector<std::uint32_t> waited;
  if (const auto found = waiting_for_.find(id); found != waiting_for_.end()) {
    waited = std::move(found->second);
    waiting_for_.erase(found);
  }
  for (const std::uint32_t slot : waited) {
    Running& run = running_[slot];
    std::erase(run.arriving, id);
    // After a failure it will be released again, behind other transfers.
    run.released = run.released && (!failed || run.started);
  }
  arrive_under_threads(transfer, failed);
  if (failed) {
    engine_.transfer_failed(id);
  } else {
    engine_.transfer_finished(id);
  }
  for (const std::uint32_t slot : waited) {
    try_start(slot);
  }
}

}  // namespace spillway::sim
