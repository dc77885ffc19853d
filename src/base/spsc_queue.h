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
    const std::size_t at = pushed_.value.load(std::memory_order_relaxed);
    if (at - popped_.value.load(std::memory_order_acquire) == slots_.size()) {
      return false;
    }
    slots_[at & (slots_.size() - 1)] = value;
    pushed_.value.store(at + 1, std::memory_order_release);
    return true;
  }

  // The popping thread's. False if the queue is empty.
  bool pop(T& value) {
    const std::size_t at = popped_.value.load(std::memory_order_relaxed);
    if (at == pushed_.value.load(std::memory_order_acquire)) {
      return false;
    }
    value = slots_[at & (slots_.size() - 1)];
    popped_.value.store(at + 1, std::memory_order_release);
    return true;
  }

 private:
  // A line of the cache each, as each is written by one side and read by the other.
  struct alignas(64) Count {
    std::atomic<std::size_t> value{0};
  };
  Count pushed_;
  Count popped_;
  std::vector<T> slots_;
};

}  // namespace spillway
