// A stream's thread: which operation may start, and what it waits for. Fake driver.
#include <algorithm>
#include <chrono>
#include <thread>

#include "world.h"

namespace fake_cuda {
namespace {

// A stream wait may be opened by a plain store, which wakes nobody, so it has to be looked at.
constexpr std::int64_t kSoonNs = 20'000;
constexpr std::int64_t kLaterNs = 200'000;
constexpr std::int64_t kSoonForNs = 5'000'000;

// Copies of this size and more go on when all connections are taken (docs/gpu.md section 4).
constexpr std::uint64_t kUnhinderedCopyBytes = 64ULL << 10U;

}  // namespace

const char* Op::name() const {
  switch (kind) {
    case OpKind::kKernel:
      return kernel->name.c_str();
    case OpKind::kCopyIn:
      return "copy in";
    case OpKind::kCopyOut:
      return "copy out";
    case OpKind::kCopyWithin:
      return "copy within the device";
    case OpKind::kSet:
      return "memset";
    case OpKind::kWriteValue:
      return "write of a value";
    case OpKind::kWaitValue:
      return "wait for a value";
    case OpKind::kWaitEvent:
      return "wait for an event";
    case OpKind::kRecord:
      return "recording of an event";
    case OpKind::kHostFunction:
      return "host function";
    case OpKind::kGraph:
      return "graph in a graph";
    case OpKind::kOutside:
      return "use from outside";
  }
  return "";
}

std::shared_ptr<Stream> World::make_stream(std::shared_ptr<Context> context, CuStream handle,
                                           bool blocking) {
  auto stream = std::make_shared<Stream>();
  stream->handle = handle;
  stream->context = std::move(context);
  stream->blocking = blocking;
  alive.push_back(stream);
  // Nobody waits for the thread itself: it leaves `alive` when it ends.
  std::thread([this, stream] { run(stream); }).detach();
  return stream;
}

void World::run(const std::shared_ptr<Stream>& stream) {
  std::unique_lock lock(mutex);
  this_thread().runs_a_stream = true;
  while (!stopping && !(stream->closing && stream->queue.empty())) {
    if (stream->queue.empty()) {
      stream->wake.wait(lock);
      continue;
    }
    Op& op = stream->queue.front();
    // One for both: what has stood long enough must not stand on.
    const std::int64_t now = now_ns();
    if (!may_start(*stream, op, now)) {
      stand(lock, *stream, op, now);
      continue;
    }
    stream->at_gate = false;
    execute(lock, *stream, op);
    stream->ended = op.number;
    ended_ns = now_ns();
    stream->launches -= op.kind == OpKind::kKernel ? 1 : 0;
    stream->queue.pop_front();
    moved();
  }
  stream->queue.clear();
  stream->context.reset();
  std::erase(alive, stream);
  progress.notify_all();
}

void World::moved() {
  for (const auto& stream : alive) {
    if (stream->standing) {
      stream->wake.notify_all();
    }
  }
  progress.notify_all();
}

bool World::value_holds(const Op& op) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const std::uint64_t now =
      __atomic_load_n(reinterpret_cast<const std::uint64_t*>(op.to), __ATOMIC_ACQUIRE);
  switch (op.flags & 3U) {
    case kCuWaitAtLeast:
      return static_cast<std::int64_t>(now - op.value) >= 0;
    case kCuWaitEqual:
      return now == op.value;
    case kCuWaitAnyBit:
      return (now & op.value) != 0;
    default:
      return ~(now | op.value) != 0;
  }
}

bool World::no_connection(const Stream& stream, const Op& op) const {
  if (op.kind == OpKind::kWaitValue || op.kind == OpKind::kWaitEvent ||
      op.kind == OpKind::kRecord || (op.copies() && op.bytes >= kUnhinderedCopyBytes)) {
    return false;
  }
  const auto waiting_streams = std::count_if(alive.begin(), alive.end(), [&](const auto& other) {
    return other.get() != &stream && other->at_gate;
  });
  return waiting_streams >= connections();
}

bool World::may_start(Stream& stream, Op& op, std::int64_t now) {
  if (op.arrived_ns == 0) {
    op.arrived_ns = now;
  }
  if (stream.held || op.arrived_ns + op.stands_ns > now ||
      !std::all_of(op.after.begin(), op.after.end(), [](const Point& it) { return it.passed(); })) {
    return false;
  }
  if (stream.context->error != CuResult::kSuccess) {
    return true;  // it will not be done
  }
  if (op.kind == OpKind::kWaitValue && value_problem(op.to).empty()) {
    const bool open = value_holds(op);
    report.counters.gates_waited += !open && !stream.at_gate ? 1 : 0;
    if (!open && !stream.at_gate) {
      stream.at_gate = true;
      progress.notify_all();
    }
    return open;
  }
  if (no_connection(stream, op)) {
    if (!op.reported) {
      op.reported = true;
      report.violation(FAKE_CUDA_TOO_MANY_GATES,
                       "{}: stands still, because {} other streams stand at gates", op.name(),
                       connections());
    }
    return false;
  }
  return true;
}

void World::stand(std::unique_lock<std::mutex>& lock, Stream& stream, const Op& op,
                  std::int64_t now) {
  const std::int64_t until = op.arrived_ns + op.stands_ns;
  if (until > now) {
    stream.wake.wait_for(lock, std::chrono::nanoseconds(until - now));
  } else if (stream.at_gate) {
    const bool soon = now - op.arrived_ns < kSoonForNs;
    stream.standing = true;
    stream.wake.wait_for(lock, std::chrono::nanoseconds(soon ? kSoonNs : kLaterNs));
    stream.standing = false;
  } else {
    stream.standing = true;
    stream.wake.wait(lock);
    stream.standing = false;
  }
}

}  // namespace fake_cuda
