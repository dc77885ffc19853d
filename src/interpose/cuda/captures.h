// Streams that are captured into graphs. What is put on one does not run: nothing is held by a
// stream wait, and the memory that the program allocates or frees there stays with the graph, which
// uses it every time that it runs. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "interpose/cuda/session.h"

namespace spillway::cuda {

namespace detail {
extern std::atomic<int> captures;  // under way
[[nodiscard]] bool stream_is_captured(CuStream stream);
}  // namespace detail

[[nodiscard]] inline bool captures_under_way() {
  return detail::captures.load(std::memory_order_relaxed) > 0;
}
// Whether what is put on this stream is recorded instead of done.
[[nodiscard]] inline bool captured(CuStream stream) {
  return captures_under_way() && detail::stream_is_captured(stream);
}

// One capture's memory. When the last graph that was made of it has gone, what the program has
// freed of it is freed.
class Capture;

// Before the driver is told, and afterwards: what it has begun, or where it has refused.
void capture_begins();
void capture_begun(CuStream stream);
void capture_refused();
// Before the driver is told: which one ends. nullptr if none does.
struct EndingCapture {
  bool under_way = false;
  std::uint64_t id = 0;
};
[[nodiscard]] EndingCapture capture_to_end(CuStream stream);
// After that; `graph` is nullptr where it was refused.
void capture_ended(const EndingCapture& capture, CuStream stream, CuGraph graph);
// Those on streams of a context that has ended, and that nobody has ended before.
void end_captures_of(CuContext context);

// On a stream that is captured.
Result<std::uint64_t> allocate_captured(const Session& session, Bytes bytes, CuStream stream);
// True if the memory stays with a graph: `stream` where it is freed on one that is captured.
bool free_captured(const Session& session, std::uint64_t address, std::optional<CuStream> stream);

// All memory is gone, with the device's state: what graphs are still to free is not theirs any
// more.
void forget_captured_memory();

// The captures that a graph was made of stay for as long as it, or what was made of it.
using Captures = std::vector<std::shared_ptr<Capture>>;
[[nodiscard]] Captures captures_of(CuGraph graph);
void set_captures(CuGraph graph, Captures captures);
void forget_graph(CuGraph graph);
// Whoever has kept some gives them up here.
void give_up(Captures captures);

}  // namespace spillway::cuda
