// Contexts, streams, what is on them, and events. Fake driver.
// Handles are numbers that are never given out again, so that use after the end is found out.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device_memory.h"

namespace fake_cuda {

using spillway::cuda::CuContext;
using spillway::cuda::CuEvent;
using spillway::cuda::CuHostFunction;
using spillway::cuda::CuStream;

struct Context;
struct Stream;

// A place on a stream: behind its operation of this number (they count from 1).
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;

  [[nodiscard]] bool passed() const;
};

struct Graph;

// One recording of an event.
struct Recording {
  Point point;
  std::shared_ptr<Graph> captured_in;  // recorded on a stream that is captured: never done
  bool done = false;
  std::int64_t done_ns = 0;
};

struct Event {
  std::shared_ptr<Context> context;
  bool timing = true;
  std::shared_ptr<Recording> last;  // nullptr: never recorded
};

struct Kernel {
  std::string name;
  std::vector<std::size_t> offsets;
  std::vector<std::size_t> bytes;
  std::size_t block_bytes = 0;
  void (*run)(const FakeCudaLaunch*) = nullptr;
  std::size_t (*ranges)(const FakeCudaLaunch*, FakeCudaRange*, std::size_t) = nullptr;
};

enum class OpKind {
  kKernel,
  kCopyIn,
  kCopyOut,
  kCopyWithin,
  kSet,
  kWriteValue,
  kWaitValue,
  kWaitEvent,
  kRecord,
  kHostFunction,
  kGraph,    // in a graph: another
  kOutside,  // on no stream: somebody else uses the memory (outside_use.cc)
};

struct Op {
  OpKind kind = OpKind::kRecord;
  std::uint64_t number = 0;
  std::vector<Point> after{};  // of other streams

  // Copies and memsets; for a value `to` is its address.
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::vector<std::byte> staged{};  // the source, where it was taken when the call was made
  bool host_pinned = false;         // whether the host's side was pinned when the call was made
  unsigned char byte = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;

  const Kernel* kernel = nullptr;
  std::vector<std::byte> parameters{};
  FakeCudaLaunch launch{};
  CuHostFunction function = nullptr;
  void* argument = nullptr;
  std::shared_ptr<Recording> recording{};

  // In a graph.
  const void* node = nullptr;  // of one that is executable: the node that it was made of
  bool enabled = true;
  std::shared_ptr<Graph> graph{};
  bool conditional = false;  // it runs if somebody says so: here always

  // Injected.
  bool breaks = false;
  std::int64_t slower_ns = 0;
  std::int64_t stands_ns = 0;  // before it starts

  // Of the stream's thread.
  std::int64_t arrived_ns = 0;  // when it was first looked at; 0 before
  bool reported = false;

  [[nodiscard]] const char* name() const;
  [[nodiscard]] bool copies() const {
    return kind == OpKind::kCopyIn || kind == OpKind::kCopyOut || kind == OpKind::kCopyWithin;
  }
  [[nodiscard]] bool writes_or_awaits_value() const {
    return kind == OpKind::kWriteValue || kind == OpKind::kWaitValue;
  }
};

// What a capture has recorded, or a program has made executable: in the order of the calls, which
// is stricter than their dependencies.
struct Graph {
  std::deque<Op> ops;         // whose addresses are their nodes
  std::uint64_t capture = 0;  // its number, if it was one
  unsigned capture_mode = 0;  // of that: global, of one thread, relaxed
  std::thread::id captured_by;
  bool invalid = false;  // a call has spoilt it
};

struct Stream {
  CuStream handle = nullptr;             // nullptr for a null stream
  std::shared_ptr<Graph> captured_into;  // nullptr: what is put on it is done
  std::shared_ptr<Context> context;
  bool blocking = true;  // ordered with the null stream
  std::deque<Op> queue;
  std::uint64_t issued = 0;  // the last number given
  std::uint64_t ended = 0;
  unsigned launches = 0;  // in the queue
  bool at_gate = false;
  bool standing = false;  // its thread waits for something else than time or work
  bool held = false;      // by the test
  bool closing = false;   // destroyed: ends when its queue is empty
  std::condition_variable wake;

  [[nodiscard]] bool null_stream() const { return handle == nullptr; }
  [[nodiscard]] bool idle() const { return ended == issued; }
};

struct Context {
  CuContext handle = nullptr;
  bool primary = false;
  unsigned flags = 0;
  unsigned retains = 1;
  CuResult error = CuResult::kSuccess;  // sticks: nothing runs any more
  std::shared_ptr<Stream> null_stream;
  std::map<std::thread::id, std::shared_ptr<Stream>> thread_streams;  // their default streams

  // The context's lock: held by a call that waits, until what it waits for has passed.
  std::thread::id locked_by;
  const char* locked_in = nullptr;  // nullptr: by nobody
  std::vector<Point> locked_until;
};

inline bool Point::passed() const { return stream->ended >= number; }

}  // namespace fake_cuda
