// malloc over a space: what is freed is kept for the next allocation of its size, dead but in
// place, as UVM Discard proposes for frameworks' allocators (section 7). What is kept are
// addresses: the frames behind them are the engine's to give to other memory, which it does before
// it takes new ones. Layer: runtime. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "platform/common/program_platform.h"

namespace spillway {

class LargeHeap {
 public:
  explicit LargeHeap(ProgramPlatform& platform) : platform_(platform) {}

  // Who asks. The same place gets the same memory again if it is free, which lets a policy
  // recognize an iteration: without it, tensors that live from one iteration into the next push the
  // others to new addresses every time.
  static constexpr std::uint64_t kAnyPlace = 0;
  struct Asker {
    std::uint64_t place = kAnyPlace;
    // An operator, for its result: the memory gets its frames now instead of at page faults.
    bool writes_all = false;
  };
  // 2 MiB-aligned. nullptr, and the reason in `error`, where the budget does not allow it. `zeros`:
  // whether it must hold zeros; afterwards whether it does.
  void* allocate(std::size_t bytes, const Asker& asker, bool& zeros, Error& error);
  // What an allocation of so many bytes takes.
  [[nodiscard]] static Bytes size_of(std::size_t bytes) {
    return round_up(std::max<Bytes>(bytes, 1), kSizeStep);
  }
  // False if no allocation starts there.
  bool free(void* start);
  // Around a fork() by this thread; the child may then only ask for sizes.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }
  // What may be used; 0 if no allocation starts there.
  [[nodiscard]] std::size_t usable_bytes(void* start);

 private:
  // Sizes are rounded up to this, so that nearly equal ones share what they leave behind.
  static constexpr Bytes kSizeStep = 64 * kKiB;
  Result<void*> make(Bytes size, bool zeros);
  void trim();
  void give_up_oldest();
  void* take_retired(Bytes size, std::uint64_t place);
  void keep_retired(void* start, Bytes size);

  ProgramPlatform& platform_;
  std::mutex mutex_;
  std::unordered_map<void*, Bytes> sizes_;  // of allocations in use
  Bytes used_bytes_ = 0;                    // their sum
  Bytes most_used_bytes_ = 0;
  // By size and address, when it was freed; and in that order.
  std::map<std::pair<Bytes, void*>, std::uint64_t> retired_;
  std::map<std::uint64_t, std::pair<Bytes, void*>> by_age_;
  std::uint64_t frees_ = 0;
  Bytes retired_bytes_ = 0;
  std::unordered_map<std::uint64_t, void*> last_at_;  // by place
};

}  // namespace spillway
