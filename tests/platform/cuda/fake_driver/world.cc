#include "world.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/rng.h"

namespace fake_cuda {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

World& world() {
  static World* const it = new World;  // streams' threads may outlive whoever loaded the library
  return *it;
}

ThreadState& this_thread() {
  thread_local ThreadState state;
  if (state.generation != world().generation) {
    state.current.clear();
    state.opens_gates = false;
    state.never_opens_gates = false;
    state.generation = world().generation;
  }
  return state;
}

World::World()
    : memory(std::make_unique<DeviceMemory>(report)), host(std::make_unique<HostMemory>(report)) {
  fake_cuda_default_config(&config);
}

void World::reset(const FakeCudaConfig& to) {
  std::unique_lock lock(mutex);
  stopping = true;
  for (const auto& stream : alive) {
    stream->wake.notify_all();
  }
  progress.wait(lock, [this] { return alive.empty(); });
  stopping = false;
  ++generation;
  access_passes = -1;
  initialized = false;
  primary.reset();
  contexts.clear();
  streams.clear();
  events.clear();
  allocated.clear();
  owners.clear();
  graphs.clear();
  executables.clear();
  attributes.clear();
  opaque.clear();
  unseen_bytes = 0;
  memory.reset();
  host.reset();
  report = {};
  memory = std::make_unique<DeviceMemory>(report);
  host = std::make_unique<HostMemory>(report);
  std::fill(std::begin(drawn_), std::end(drawn_), 0);
  config = to;
}

CuResult World::begin(Caller& caller, Needs needs) {
  ++report.counters.calls;
  ThreadState& thread = this_thread();
  if (thread.runs_a_stream) {
    report.violation(FAKE_CUDA_CALL_IN_HOST_FUNCTION, "{}: called from within a stream",
                     caller.call);
    return CuResult::kNotPermitted;
  }
  if (!thread.current.empty()) {
    caller.context = thread.current.back();
  }
  const bool second_context = caller.context != nullptr && !caller.context->primary;
  caller.opens_gates = thread.opens_gates || (second_context && !thread.never_opens_gates);
  if (needs != Needs::kNothing && !initialized) {
    return CuResult::kNotInitialized;
  }
  if (needs == Needs::kContext) {
    if (caller.context == nullptr) {
      return CuResult::kInvalidContext;
    }
    return caller.context->error;
  }
  return CuResult::kSuccess;
}

void World::end(const Caller& caller, CuResult result, const std::string& arguments) {
  if (result != CuResult::kSuccess && result != CuResult::kNotReady) {
    ++report.counters.refused_calls;
  }
  if (config.log_calls != 0) {
    report.log.push_back(
        fmt::format("{}({}) = {}{}", caller.call, arguments, static_cast<unsigned>(result),
                    caller.context != nullptr && !caller.context->primary ? " [2nd context]" : ""));
  }
}

// Each kind has a sequence of its own, so that threads disturb each other's as little as can be.
bool World::happens(Chance kind, double rate) {
  const auto index = static_cast<std::size_t>(kind);
  const std::uint64_t count = ++drawn_[index];
  if (rate <= 0) {
    return false;
  }
  const std::uint64_t of_kind = spillway::Rng(config.seed * kChances + index).next();
  if (!spillway::Rng(of_kind + count).chance(rate)) {
    return false;
  }
  ++report.counters.injected_failures;
  return true;
}

int World::connections() const {
  if (config.connections > 0) {
    return config.connections;
  }
  const char* set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int value = set != nullptr ? std::atoi(set) : 0;
  return value > 0 ? value : 8;
}

std::uint64_t World::free_device_bytes() const {
  const std::uint64_t used =
      report.counters.handle_bytes + report.counters.contexts * config.context_bytes;
  return used < config.device_bytes ? config.device_bytes - used : 0;
}

}  // namespace fake_cuda
