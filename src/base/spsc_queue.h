// A bounded queue between exactly one thread that pushes and one that pops. Ground floor.
// Neither side takes a lock or allocates after construction.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <vector>

namespace spillway {

template <typename T>
class SpscQueue {
 public:
  // Holds at least `capacity` elements.
  explicit SpscQueue(std::size_t capacity) : slots_(std::bit_ceil(capacity)) {}

  // The pushing thread's. False if the queue is full: nothing has happened.
  bool push(const T& value) {
    const std::size_t at = pushed_.load(std::memory_order_relaxed);
    if (at - popped_.load(std::memory_order_acquire) == slots_.size()) {
      return false;
    }
    slots_[at & (slots_.size() - 1)] = value;
    pushed_.store(at + 1, std::memory_order_release);
    return true;
  }

  // The popping thread's. False if the queue is empty.
  bool pop(T& value) {
    const std::size_t at = popped_.load(std::memory_order_relaxed);
    if (at == pushed_.load(std::memory_order_acquire)) {
      return false;
    }
    value = slots_[at & (slots_.size() - 1)];
    popped_.store(at + 1, std::memory_order_release);
    return true;
  }

  // Anybody's; what it says may be past already.
  [[nodiscard]] bool empty() const {
    return popped_.load(std::memory_order_acquire) == pushed_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kCacheLine = 64;
  std::vector<T> slots_;
  alignas(kCacheLine) std::atomic<std::size_t> pushed_{0};
  alignas(kCacheLine) std::atomic<std::size_t> popped_{0};
};

}  // namespace spillway
