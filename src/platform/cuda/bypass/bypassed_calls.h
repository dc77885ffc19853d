// Which threads of the program are inside a bypassed call, and on which stream. Layer: platform,
// cuda. docs/cuda.md. It knows nothing of launches and memory.
//
// A thread marks itself first and looks at the mode second; who closes bypass mode clears the mode
// first and looks at the threads second. So no call is missed: either the thread sees that it is
// too late, or it is seen, and reports when its call has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"
#include "engine/types.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

class BypassedCalls {
 public:
  BypassedCalls();

  // --- The program's threads, without a lock

  [[nodiscard]] bool is_open() const { return open_.load(std::memory_order_relaxed) != 0; }
  enum class Begun : std::uint8_t {
    kBypassed,  // `end` when it is over
    kTracked,   // too late, or this thread's last call was on another stream: nothing has begun
    kMarked,    // as kTracked, but somebody has taken it for one: `take_mark` under the lock
  };
  // `context` counts for the null stream only.
  [[nodiscard]] Begun begin(CuStream stream, CuContext context);
  // False: bypass mode was closed meanwhile, and `take_mark` has to be called under the lock.
  [[nodiscard]] bool end();
  // What it remembers has gone: no call of the calling thread may begin here any more.
  [[nodiscard]] static bool thread_ends();

  // --- Under the platform's lock

  // A new bypass period, in which calls are open or not: closed means that they all come to the
  // platform, and begin with `begin_seen`.
  void begin_period() { ++epoch_; }
  void set_open(bool open) { open_.store(open ? epoch_ : 0, std::memory_order_seq_cst); }
  // The calling thread begins a call on this stream, the platform's `id`, and will come there with
  // the next ones by itself if they are open.
  void begin_seen(CuStream stream, CuContext context, StreamId id);
  // Calls are closed. `mark(id)` for each that is under way, and what it gives is what its thread
  // takes when that has ended.
  void close(const std::function<std::uint32_t(StreamId)>& mark);
  [[nodiscard]] std::uint32_t take_mark();

  // Calls so far.
  [[nodiscard]] std::uint64_t calls() const;

 private:
  enum State : std::uint8_t { kOut, kIn, kMarked };
  // One line of a processor's cache: written by its thread with every call.
  struct alignas(64) Thread {
    std::atomic<std::uint8_t> state{kOut};
    std::atomic<bool> taken{true};  // by a thread that lives
    std::uint32_t mark = 0;
    // The stream of the last call, and the bypass period in which the platform has heard of it.
    StreamId id = kNoStream;
    CuStream stream = nullptr;
    CuContext context = nullptr;
    std::uint64_t epoch = 0;
    std::atomic<std::uint64_t> calls{0};  // only its thread counts
  };
  // Threads may outlive whose calls they make, and the other way round.
  struct Threads {
    Mutex mutex;
    std::deque<Thread> all SPILLWAY_GUARDED_BY(mutex);
  };
  struct Mine;
  // Null where `thread_ends`.
  [[nodiscard]] Thread* mine();
  static void count(Thread& thread) {
    thread.calls.store(thread.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  const std::uint64_t serial_;  // of all that were ever made in the process
  std::shared_ptr<Threads> threads_ = std::make_shared<Threads>();
  std::atomic<std::uint64_t> open_{0};  // the bypass period whose calls are open; 0: none
  std::uint64_t epoch_ = 0;
};

}  // namespace spillway::cuda
