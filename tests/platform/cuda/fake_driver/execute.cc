// What an operation does when it is its turn, and what is checked then. Fake driver.
#include <chrono>
#include <cstring>
#include <thread>

#include "world.h"

namespace fake_cuda {
namespace {

void work(const Op& op, bool moves_bytes) {
  // What breaks has done a part.
  const std::uint64_t bytes = op.breaks ? op.bytes / 2 : op.bytes;
  switch (op.kind) {
    case OpKind::kKernel: {
      FakeCudaLaunch launch = op.launch;
      launch.parameters = op.parameters.data();
      launch.parameter_bytes = op.parameters.size();
      op.kernel->run(&launch);
      break;
    }
    case OpKind::kCopyIn:
    case OpKind::kCopyOut:
    case OpKind::kCopyWithin:
      if (moves_bytes) {
        std::memmove(pointer(op.to), op.staged.empty() ? pointer(op.from) : op.staged.data(),
                     bytes);
      }
      break;
    case OpKind::kSet:
      if (moves_bytes) {
        std::memset(pointer(op.to), op.byte, op.bytes);
      }
      break;
    case OpKind::kWriteValue:
      __atomic_store_n(static_cast<std::uint64_t*>(pointer(op.to)), op.value, __ATOMIC_RELEASE);
      break;
    case OpKind::kHostFunction:
      op.function(op.argument);
      break;
    case OpKind::kWaitValue:
    case OpKind::kWaitEvent:
    case OpKind::kRecord:
    case OpKind::kGraph:
    case OpKind::kOutside:
      break;
  }
}

void count(const Op& op, FakeCudaCounters& counters) {
  counters.launches += op.kind == OpKind::kKernel ? 1 : 0;
  counters.copies_in += op.kind == OpKind::kCopyIn ? 1 : 0;
  counters.copies_out += op.kind == OpKind::kCopyOut ? 1 : 0;
  counters.copies_within += op.kind == OpKind::kCopyWithin ? 1 : 0;
  counters.memsets += op.kind == OpKind::kSet ? 1 : 0;
  counters.copied_in_bytes += op.kind == OpKind::kCopyIn ? op.bytes : 0;
  counters.copied_out_bytes += op.kind == OpKind::kCopyOut ? op.bytes : 0;
}

std::int64_t duration_ns(const Op& op, const FakeCudaConfig& config) {
  double more = 0;
  if (op.kind == OpKind::kKernel) {
    more = static_cast<double>(config.launch_ns);
  } else if (op.copies()) {
    more = static_cast<double>(config.copy_ns);
    if (config.copy_bytes_per_s > 0) {
      more += static_cast<double>(op.bytes) * 1e9 / config.copy_bytes_per_s;
    }
  }
  return op.slower_ns + static_cast<std::int64_t>(more);
}

// Whether both may run at once. Kernels may share what they write: they have atomics.
bool collide(const Running& a, const Running& b) {
  if (a.op->kind == OpKind::kKernel && b.op->kind == OpKind::kKernel) {
    return false;
  }
  for (const Range& x : a.ranges) {
    for (const Range& y : b.ranges) {
      if ((x.writes || y.writes) && x.overlaps(y)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string World::value_problem(std::uint64_t address) const {
  if (host->pinned(address, sizeof(std::uint64_t))) {
    return {};
  }
  return memory->problem({address, sizeof(std::uint64_t), true});
}

// On the device; the host's side of a copy is none, a value is one only in device memory.
std::vector<Range> World::ranges_of(const Op& op) const {
  switch (op.kind) {
    case OpKind::kCopyIn:
    case OpKind::kSet:
      return {{op.to, op.bytes, true}};
    case OpKind::kCopyOut:
      return {{op.from, op.bytes, false}};
    case OpKind::kCopyWithin:
      return {{op.from, op.bytes, false}, {op.to, op.bytes, true}};
    case OpKind::kKernel:
      break;
    default:
      return {};
  }
  std::vector<Range> ranges;
  if (op.kernel->ranges == nullptr) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= op.parameters.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, op.parameters.data() + at, sizeof word);
      if (memory->reserved(word)) {
        ranges.push_back({word, 1, false});
      }
    }
    return ranges;
  }
  FakeCudaLaunch launch = op.launch;
  launch.parameters = op.parameters.data();
  launch.parameter_bytes = op.parameters.size();
  std::vector<FakeCudaRange> told(16);
  const std::size_t all = op.kernel->ranges(&launch, told.data(), told.size());
  if (all > told.size()) {
    told.resize(all);
    op.kernel->ranges(&launch, told.data(), told.size());
  }
  told.resize(all);
  for (const FakeCudaRange& it : told) {
    // A kernel may also read and write pinned host memory.
    if (!host->pinned(it.address, it.bytes)) {
      ranges.push_back({it.address, it.bytes, it.writes != 0});
    }
  }
  return ranges;
}

void World::execute(std::unique_lock<std::mutex>& lock, Stream& stream, Op& op) {
  Context& context = *stream.context;
  const auto finish = [&] {
    if (op.recording != nullptr) {
      op.recording->done = true;
      op.recording->done_ns = now_ns();
    }
  };
  if (context.error != CuResult::kSuccess) {
    return finish();
  }
  Running here{&op, ranges_of(op)};
  std::string problem;
  for (const Range& range : here.ranges) {
    if (problem.empty()) {
      problem = memory->problem(range);
    }
  }
  if (op.kind == OpKind::kWriteValue || op.kind == OpKind::kWaitValue) {
    problem = value_problem(op.to);
  }
  if (!problem.empty()) {
    report.violation(FAKE_CUDA_UNMAPPED_ACCESS, "{}: ran, but {}", op.name(), problem);
    context.error = CuResult::kIllegalAddress;
    return finish();
  }
  if (op.host_pinned) {
    const std::uint64_t on_host = op.kind == OpKind::kCopyIn ? op.from : op.to;
    if (!host->pinned(on_host, op.bytes)) {
      report.violation(FAKE_CUDA_HOST_MEMORY,
                       "{}: ran, but {:#x} on the host is not pinned any more", op.name(), on_host);
      context.error = CuResult::kIllegalAddress;
      return finish();
    }
  }
  for (const Running& other : running) {
    if (collide(here, other)) {
      report.violation(FAKE_CUDA_RACE, "{} and {} run at once on the same memory ({:#x})",
                       op.name(), other.op->name(), here.ranges.front().address);
    }
  }
  const std::int64_t took_ns = duration_ns(op, config);
  const bool moves_bytes = config.copies_move_nothing == 0;
  const std::int64_t start = now_ns();
  here.until_ns = start + took_ns;
  const auto mine = running.insert(running.end(), std::move(here));
  lock.unlock();
  work(op, moves_bytes);
  const std::int64_t left_ns = start + took_ns - now_ns();
  if (left_ns > 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
  }
  lock.lock();
  running.erase(mine);
  if (op.breaks) {
    context.error = CuResult::kEccUncorrectable;
  }
  count(op, report.counters);
  finish();
}

}  // namespace fake_cuda
