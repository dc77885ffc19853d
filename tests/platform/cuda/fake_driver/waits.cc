// Calls that wait: for streams, for a context's lock, for what runs. Fake driver.
// Whoever satisfies stream waits must not wait for a closed one: such a call is reported and
// refused at once. Any other thread may, but not longer than stuck_after_ns (docs/gpu.md section
// 4).
#include <algorithm>
#include <chrono>

#include "world.h"

namespace fake_cuda {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};

bool all_passed(const std::vector<Point>& points) {
  return std::all_of(points.begin(), points.end(), [](const Point& it) { return it.passed(); });
}

}  // namespace

bool World::gated(const Point& point) const {
  Seen seen;
  return !point.passed() && gated(*point.stream, point.number, seen);
}

bool World::gated(const Stream& stream, std::uint64_t number, Seen& seen) const {
  const auto [known, is_new] = seen.emplace(std::pair(&stream, number), true);
  if (!is_new) {
    return known->second;
  }
  for (const Op& op : stream.queue) {
    if (op.number > number) {
      break;
    }
    if (op.kind == OpKind::kWaitValue && value_problem(op.to).empty() && !value_holds(op) &&
        !to_be_written(op, seen)) {
      return true;
    }
    if (no_connection(stream, op) ||
        std::any_of(op.after.begin(), op.after.end(), [&](const Point& before) {
          return !before.passed() && gated(*before.stream, before.number, seen);
        })) {
      return true;
    }
  }
  return known->second = false;
}

// Whether a stream will open this stream wait without anybody's help.
bool World::to_be_written(const Op& wait, Seen& seen) const {
  for (const auto& stream : alive) {
    for (const Op& op : stream->queue) {
      if (op.kind == OpKind::kWriteValue && op.to == wait.to && (wait.flags & 3U) <= kCuWaitEqual &&
          (op.value == wait.value || ((wait.flags & 3U) == kCuWaitAtLeast &&
                                      static_cast<std::int64_t>(op.value - wait.value) > 0)) &&
          !gated(*stream, op.number, seen)) {
        return true;
      }
    }
  }
  return false;
}

bool World::nothing_ends(std::int64_t began_ns) const {
  return now_ns() - std::max(began_ns, ended_ns) > config.stuck_after_ns;
}

CuResult World::wait_for(Caller& caller, const std::vector<Point>& points, Context* locks) {
  const auto any_gated = [&] {
    return std::any_of(points.begin(), points.end(), [this](const Point& it) { return gated(it); });
  };
  if (locks != nullptr) {
    const CuResult mine = wait_for_lock(caller, *locks);
    if (mine != CuResult::kSuccess) {
      return mine;
    }
    locks->locked_by = std::this_thread::get_id();
    locks->locked_in = caller.call;
    locks->locked_until = points;
  }
  const std::uint64_t began_in = generation;
  const std::int64_t began_ns = now_ns();
  CuResult result = CuResult::kSuccess;
  while (result == CuResult::kSuccess && !all_passed(points)) {
    const bool late = nothing_ends(began_ns);
    if (stopping || generation != began_in) {
      result = CuResult::kDeinitialized;
    } else if (caller.opens_gates && any_gated()) {
      report.violation(FAKE_CUDA_WAITED_AT_GATE,
                       "{}: called by who opens gates, and waits for a closed one", caller.call);
      result = CuResult::kUnknown;
    } else if (late && any_gated()) {
      report.violation(FAKE_CUDA_STUCK,
                       "{}: waits for a closed gate, and nothing has ended for {} ms", caller.call,
                       config.stuck_after_ns / 1'000'000);
      result = CuResult::kLaunchTimeout;
    } else {
      progress.wait_for(caller.lock, kLookAgain);
    }
  }
  if (locks != nullptr) {
    locks->locked_in = nullptr;
    locks->locked_until.clear();
    progress.notify_all();
  }
  return result;
}

std::vector<Point> World::all_of(const Context& context) const {
  std::vector<Point> points;
  for (const auto& stream : alive) {
    if (stream->context.get() == &context && !stream->idle()) {
      points.push_back({stream, stream->issued});
    }
  }
  return points;
}

CuResult World::drain(Caller& caller, Context& context, bool locks) {
  const bool closed = std::any_of(alive.begin(), alive.end(), [this](const auto& stream) {
    return gated({stream, stream->issued});
  });
  if (closed && caller.opens_gates) {
    report.violation(FAKE_CUDA_WAITED_AT_GATE,
                     "{}: called by who opens gates, waits for everything, and a gate is closed",
                     caller.call);
    return CuResult::kUnknown;
  }
  return wait_for(caller, all_of(context), locks ? &context : nullptr);
}

CuResult World::wait_for_lock(Caller& caller, Context& context) {
  const std::uint64_t began_in = generation;
  const std::int64_t began_ns = now_ns();
  while (context.locked_in != nullptr && context.locked_by != std::this_thread::get_id()) {
    if (stopping || generation != began_in) {
      return CuResult::kDeinitialized;
    }
    const bool late = nothing_ends(began_ns);
    const bool closed = std::any_of(context.locked_until.begin(), context.locked_until.end(),
                                    [this](const Point& it) { return gated(it); });
    if (closed && (late || caller.opens_gates)) {
      report.violation(caller.opens_gates ? FAKE_CUDA_WAITED_AT_GATE : FAKE_CUDA_STUCK,
                       "{}: stuck behind {} in the same context, which waits for a closed gate",
                       caller.call, context.locked_in);
      return caller.opens_gates ? CuResult::kUnknown : CuResult::kLaunchTimeout;
    }
    progress.wait_for(caller.lock, kLookAgain);
  }
  return CuResult::kSuccess;
}

void World::wait_until_unused(Caller& caller, const Range& range) {
  bool reported = false;
  const auto used = [&] {
    for (const Running& it : running) {
      for (const Range& other : it.ranges) {
        if (range.overlaps(other)) {
          if (!reported) {
            report.violation(FAKE_CUDA_TAKEN_WHILE_RUNNING, "{}: {:#x}, {} B, and {} runs there",
                             caller.call, range.address, range.bytes, it.op->name());
            reported = true;
          }
          return true;
        }
      }
    }
    return false;
  };
  while (used()) {
    progress.wait_for(caller.lock, kLookAgain);
  }
}

}  // namespace fake_cuda
