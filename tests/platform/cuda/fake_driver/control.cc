// What tests say and ask: fake_cuda.h. Fake driver.
#include <algorithm>
#include <cstring>

#include "world.h"

using fake_cuda::Kernel;
using fake_cuda::Stream;
using fake_cuda::this_thread;
using fake_cuda::World;
using fake_cuda::world;

namespace {

std::size_t copy_text(const std::string& from, char* text, std::size_t bytes) {
  if (bytes > 0) {
    const std::size_t length = std::min(from.size(), bytes - 1);
    std::memcpy(text, from.data(), length);
    text[length] = '\0';
  }
  return from.size();
}

Stream* find(const World& w, const void* handle) {
  for (const auto& it : w.alive) {
    if (it->handle == handle && (handle != nullptr || it->context == w.primary)) {
      return it.get();
    }
  }
  return nullptr;
}

// As the real driver scales its queues: "4x".
double queue_scale() {
  const char* const set = std::getenv("CUDA_SCALE_LAUNCH_QUEUES");
  const double value = set != nullptr ? std::atof(set) : 0;
  return value > 0 ? value : 1;
}

}  // namespace

extern "C" {

void fake_cuda_default_config(FakeCudaConfig* config) {
  *config = {};
  config->device_bytes = 1ULL << 30U;
  config->driver_version = 13000;
  config->launches_ahead = static_cast<unsigned>(1019 * queue_scale());
  config->poison_handles = 1;
  config->stuck_after_ns = 5'000'000'000;
}

void fake_cuda_reset(const FakeCudaConfig* config) { world().reset(*config); }

void fake_cuda_change(const FakeCudaConfig* config) {
  const std::lock_guard lock(world().mutex);
  FakeCudaConfig& mine = world().config;
  const FakeCudaConfig old = mine;
  mine = *config;
  mine.device_bytes = old.device_bytes;
  mine.context_bytes = old.context_bytes;
  mine.driver_version = old.driver_version;
  mine.connections = old.connections;
  mine.launches_ahead = old.launches_ahead;
  mine.poison_handles = old.poison_handles;
  mine.log_calls = old.log_calls;
}

size_t fake_cuda_violations() {
  const std::lock_guard lock(world().mutex);
  return world().report.violations.size();
}

int fake_cuda_violation(size_t index, char* text, size_t bytes) {
  const std::lock_guard lock(world().mutex);
  const auto& all = world().report.violations;
  if (index >= all.size()) {
    return -1;
  }
  copy_text(all[index].text, text, bytes);
  return static_cast<int>(all[index].kind);
}

void fake_cuda_clear_violations() {
  const std::lock_guard lock(world().mutex);
  world().report.violations.clear();
}

void fake_cuda_counters(FakeCudaCounters* counters) {
  const std::lock_guard lock(world().mutex);
  *counters = world().report.counters;
}

size_t fake_cuda_log_lines() {
  const std::lock_guard lock(world().mutex);
  return world().report.log.size();
}

size_t fake_cuda_log(size_t index, char* text, size_t bytes) {
  const std::lock_guard lock(world().mutex);
  const auto& log = world().report.log;
  return index < log.size() ? copy_text(log[index], text, bytes) : 0;
}

void* fake_cuda_register_kernel(const FakeCudaKernel* kernel) {
  const std::lock_guard lock(world().mutex);
  auto made = std::make_unique<Kernel>();
  made->name = kernel->name;
  made->offsets.assign(kernel->parameter_offsets, kernel->parameter_offsets + kernel->parameters);
  made->bytes.assign(kernel->parameter_bytes, kernel->parameter_bytes + kernel->parameters);
  for (std::size_t i = 0; i < made->offsets.size(); ++i) {
    made->block_bytes = std::max(made->block_bytes, made->offsets[i] + made->bytes[i]);
  }
  made->run = kernel->run;
  made->ranges = kernel->ranges;
  // A function is the kernel's own address, a library's kernel an address inside it.
  Kernel* const function = made.get();
  world().kernel_handles.emplace(function, function);
  world().kernel_handles.emplace(fake_cuda_kernel_of(function), function);
  world().kernels.push_back(std::move(made));
  return function;
}

void* fake_cuda_kernel_of(void* function) { return static_cast<char*>(function) + 1; }

void fake_cuda_thread_opens_gates(int yes) {
  const std::lock_guard lock(world().mutex);
  this_thread().opens_gates = yes > 0;
  this_thread().never_opens_gates = yes < 0;
}

void fake_cuda_hold_stream(void* stream, int hold) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (Stream* const it = find(w, stream)) {
    it->held = hold != 0;
  }
  w.moved();
}

void fake_cuda_let_access(int64_t calls) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.access_passes = calls;
  w.moved();
}

int fake_cuda_access_stands() {
  const std::lock_guard lock(world().mutex);
  return world().access_stands;
}

int fake_cuda_stream_works(void* stream) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const Stream* const it = find(w, stream);
  return std::any_of(w.running.begin(), w.running.end(), [it](const fake_cuda::Running& running) {
    return it != nullptr && !it->queue.empty() && running.op == &it->queue.front();
  });
}

void fake_cuda_set_attribute(int attribute, int value) {
  const std::lock_guard lock(world().mutex);
  world().attributes[attribute] = value;
}

}  // extern "C"
