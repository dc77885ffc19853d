// Threads that work on blocks: each has a share of its own, always the same part of the whole, and
// when it is done helps the others. Layer: near. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <vector>

#include "base/mutex.h"

namespace spillway::near {

class Pool {
 public:
  // Why not: one line.
  static tl::expected<std::unique_ptr<Pool>, std::string> make(std::uint32_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // With the caller's.
  [[nodiscard]] std::uint32_t threads() const { return threads_; }

  // Calls work(block) for each block in [0, blocks), in several threads, and returns when all are
  // done. They treat subnormal numbers as the caller does. Calls of several threads wait for each
  // other.
  void run(std::size_t blocks, const std::function<void(std::size_t)>& work);

 private:
  // Blocks that are left of a thread's share. A cache line each.
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };

  explicit Pool(std::uint32_t threads);
  void serve(std::uint32_t me);
  void work_off(std::uint32_t me);
  [[nodiscard]] bool forked() const;

  const std::uint32_t threads_;
  const int process_;
  std::vector<Share> shares_;
  std::vector<std::thread> servers_;

  Mutex one_run_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable done_;
  std::uint64_t generation_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::uint32_t busy_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool ends_ SPILLWAY_GUARDED_BY(mutex_) = false;
  const std::function<void(std::size_t)>* work_ = nullptr;  // stands until all are done
  std::uint32_t float_mode_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::near
