// The optimizer's step of a trace as updates that run at the host, or partly on the device. See
// replay.h; docs/simulator.md.
#include <algorithm>
#include <iterator>

#include "platform/sim/replay.h"

namespace spillway::sim {
namespace {

constexpr StreamId kDeviceStream = 0;
constexpr StreamId kHostStream = 1;

}  // namespace

// What kernels did to whole tensors is taken out of them. What lies in a frame that small
// allocations share stays with its kernel, which others would have to wait for.
void Replay::make_updates(std::uint32_t graph, const Trace& trace, const Vitality& vitality,
                          std::vector<Step>& steps) const {
  const TracedUpdates traced = find_updates(trace);
  const Space& space = simulator_->engine().space();
  const auto allocation_of = [&](TensorId id) { return allocations_[places_.of[graph][id]]; };
  for (KernelIndex index = 0; index < steps.size(); ++index) {
    if (traced.replaced[index]) {
      steps[index].updates = true;
      steps[index].launch.accesses.clear();
      steps[index].duration_ns = 0;
    }
  }
  for (const TracedUpdate& one : traced.updates) {
    const AllocationId gradient = allocation_of(one.gradient);
    Update update{.launch = {.runs_at = Tier::kHost, .accesses = {}},
                  .device_ns = one.duration_ns,
                  .kernel = one.kernel};
    update.launch.accesses = {access_to(allocation_of(one.parameter), AccessMode::kReadWrite),
                              access_to(gradient, AccessMode::kRead)};
    std::transform(
        one.states.begin(), one.states.end(), std::back_inserter(update.launch.accesses),
        [&](TensorId id) { return access_to(allocation_of(id), AccessMode::kReadWrite); });
    const bool whole = std::none_of(
        update.launch.accesses.begin(), update.launch.accesses.end(),
        [&](const Access& access) { return space.allocation(access.allocation).packed; });
    if (!whole) {
      Step& step = steps[one.kernel];
      step.duration_ns += one.duration_ns;
      std::copy(update.launch.accesses.begin(), update.launch.accesses.end(),
                std::back_inserter(step.launch.accesses));
      continue;
    }
    if (const auto& life = vitality.lives[one.gradient];
        life && traced.replaced[life->last_use] &&
        std::erase(steps[life->last_use].deaths, gradient) > 0) {
      update.dies = gradient;
    }
    steps[one.ready_behind].ready.push_back(std::move(update));
  }
}

// The kernel, with those updates that run on the device after all.
Replay::Step Replay::with_updates(const Step& step, KernelIndex index) {
  Step merged = step;
  const auto found = on_device_.find(index);
  if (found == on_device_.end()) {
    return merged;
  }
  for (const Update& update : found->second) {
    merged.duration_ns += update.device_ns;
    std::copy(update.launch.accesses.begin(), update.launch.accesses.end(),
              std::back_inserter(merged.launch.accesses));
    if (update.dies != kNoAllocation) {
      merged.deaths.push_back(update.dies);
    }
  }
  on_device_.erase(found);
  return merged;
}

// Its operands are there when what has been issued so far has run.
Status Replay::update(const Update& update, std::size_t iteration) {
  const Result<bool> at_host = update_at_host(update);
  if (!at_host) {
    return tl::unexpected<Error>(at_host.error());
  }
  if (!*at_host) {
    on_device_[update.kernel].push_back(update);
    return {};
  }
  const bool dies = options_.tells_deaths && update.dies != kNoAllocation;
  return dies ? die(update.dies, iteration) : Status();
}

// False where it had better run on the device, or does not fit into host memory.
Result<bool> Replay::update_at_host(const Update& update) {
  const Space& space = simulator_->engine().space();
  const Bytes host_bytes = works_of(update.launch, space).at_host.host_bytes;
  UpdateBalance& balance = simulator_->balance();
  const bool placed = options_.near_optimizer == NearOptimizer::kAuto;
  if (placed &&
      balance.place(update.launch, space, simulator_->now_ns()).runs_at == Tier::kDevice) {
    return false;
  }
  if (Status status = wait_for_turn(0); !status) {
    return tl::unexpected<Error>(status.error());
  }
  const bool ahead = options_.queue_depth > 0;
  Launch launch = update.launch;
  if (ahead) {
    const SignalId made = simulator_->create_signal();
    simulator_->record(made, kDeviceStream);
    simulator_->wait(made, kHostStream);
    launch.stream = kHostStream;
  }
  const auto takes_ns =
      static_cast<TimeNs>(static_cast<double>(host_bytes) / options_.update_bytes_per_s * 1e9);
  if (simulator_->issue(launch, takes_ns) == LaunchState::kTooLarge) {
    if (placed) {
      balance.withdrawn(update.launch, host_bytes);
    }
    return false;
  }
  std::uint64_t behind = simulator_->launches().issued();
  if (ahead) {
    behind = simulator_->create_signal();
    simulator_->record(behind, kHostStream);
  }
  for (const Access& access : update.launch.accesses) {
    at_host_[access.allocation] = behind;
  }
  return true;
}

// Before a launch that uses what updates at the host use.
Status Replay::wait_for_updates(const Launch& launch) {
  for (const Access& access : launch.accesses) {
    const auto found = at_host_.find(access.allocation);
    if (found == at_host_.end()) {
      continue;
    }
    if (options_.queue_depth > 0) {
      simulator_->wait(found->second, kDeviceStream);
      at_host_.erase(found);
      continue;
    }
    while (at_host_.contains(access.allocation)) {
      if (Status status = simulator_->run_a_step(); !status) {
        return status;
      }
    }
  }
  return {};
}

// Where the host waits for each launch.
void Replay::updated(std::uint64_t number) {
  if (options_.queue_depth == 0) {
    std::erase_if(at_host_, [number](const auto& entry) { return entry.second == number; });
  }
}

}  // namespace spillway::sim
