// Processes in virtual time, as coroutines: each waits for bytes to cross resources, for time to
// pass, or until something holds. Layer: platform, simulator. One thread; the order in which
// processes run at one time is that in which they began to wait.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "platform/sim/link.h"

namespace spillway::sim::near_memory {

// What a coroutine of a simulation returns. It begins when it is awaited by another or given to
// World::start, and is destroyed with this object.
class [[nodiscard]] Process {
 public:
  struct promise_type {
    std::coroutine_handle<> continuation = std::noop_coroutine();

    Process get_return_object() {
      return Process(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    struct Resume {
      [[nodiscard]] static bool await_ready() noexcept { return false; }
      static std::coroutine_handle<> await_suspend(
          std::coroutine_handle<promise_type> ended) noexcept {
        return ended.promise().continuation;
      }
      static void await_resume() noexcept {}
    };
    static Resume final_suspend() noexcept { return {}; }
    void return_void() {}
    [[noreturn]] static void unhandled_exception() { std::terminate(); }
  };

  explicit Process(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Process(Process&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (handle_) {
      handle_.destroy();
    }
  }

  [[nodiscard]] bool ended() const { return handle_.done(); }
  void begin() { handle_.resume(); }

  // co_await process: until it has ended.
  [[nodiscard]] static bool await_ready() { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
    handle_.promise().continuation = waiting;
    return handle_;
  }
  static void await_resume() {}

 private:
  std::coroutine_handle<promise_type> handle_;
};

class World {
 public:
  explicit World(const std::array<double, kResourceCount>& bytes_per_s) : flows_(bytes_per_s) {}

  [[nodiscard]] TimeNs now_ns() const { return now_ns_; }
  [[nodiscard]] const FairShare& flows() const { return flows_; }

  // To be awaited.
  struct Transfer {
    World& world;
    ResourceSet resources;
    Bytes bytes;
    [[nodiscard]] bool await_ready() const { return bytes == 0; }
    void await_suspend(std::coroutine_handle<> handle) {
      world.flows_.start(world.next_key_, resources, bytes, world.now_ns_);
      world.transfers_.emplace(world.next_key_++, handle);
    }
    static void await_resume() {}
  };
  struct Wait {
    World& world;
    TimeNs duration_ns;
    [[nodiscard]] bool await_ready() const { return duration_ns <= 0; }
    void await_suspend(std::coroutine_handle<> handle) {
      world.timers_.emplace(world.now_ns_ + duration_ns, handle);
    }
    static void await_resume() {}
  };
  struct Until {
    World& world;
    std::function<bool()> holds;
    [[nodiscard]] bool await_ready() const { return holds(); }
    void await_suspend(std::coroutine_handle<> handle) {
      world.waiting_.push_back({std::move(holds), handle});
    }
    static void await_resume() {}
  };
  [[nodiscard]] Transfer transfer(ResourceSet resources, Bytes bytes) {
    return {*this, resources, bytes};
  }
  [[nodiscard]] Wait wait(TimeNs duration_ns) { return {*this, duration_ns}; }
  [[nodiscard]] Until until(std::function<bool()> holds) { return {*this, std::move(holds)}; }

  // Runs the processes until all have ended. kDefect where none can go on.
  [[nodiscard]] Status run(std::vector<Process> processes);

 private:
  struct Waiting {
    std::function<bool()> holds;
    std::coroutine_handle<> handle;
  };
  bool resume_one();
  bool advance();

  FairShare flows_;
  TimeNs now_ns_ = 0;
  std::uint64_t next_key_ = 0;
  std::unordered_map<std::uint64_t, std::coroutine_handle<>> transfers_;
  std::multimap<TimeNs, std::coroutine_handle<>> timers_;
  std::vector<Waiting> waiting_;
};

}  // namespace spillway::sim::near_memory
