// malloc over a space: what is freed is kept for the next allocation of its size, dead but in
// place, as UVM Discard proposes for frameworks' allocators (section 7). What is kept are
// addresses: the frames behind them are the engine's to give to other memory, which it does before
// it takes new ones. And what the kernel lets programs do with pages of a mapping.
// Layer: heap. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "heap/page_marks.h"
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
  // An allocation that grows to so many bytes, in its place: false if it cannot. Its contents stay.
  bool grow(void* start, std::size_t bytes);
  // The same as allocate, for something that has outgrown its place, and may do so again: with room
  // behind it.
  void* allocate_with_room(std::size_t bytes, Error& error);
  // False if no allocation starts there.
  bool free(void* start);
  // Around a fork() by this thread; the child may then only ask for sizes.
  void before_fork() SPILLWAY_ACQUIRE(mutex_) { mutex_.lock(); }
  void after_fork() SPILLWAY_RELEASE(mutex_) { mutex_.unlock(); }
  // What all allocations take.
  [[nodiscard]] Bytes used_bytes() {
    const MutexLock lock(mutex_);
    return used_bytes_;
  }
  // What may be used; 0 if no allocation starts there.
  [[nodiscard]] std::size_t usable_bytes(void* start);

  // The following name whole pages.
  // The part of them that lies in the first allocation that has any of them: where it starts and
  // ends. nullopt if none has.
  struct Part {
    char* start = nullptr;
    Bytes bytes = 0;
  };
  [[nodiscard]] std::optional<Part> first_part(void* start, Bytes bytes);
  // The following name pages of one allocation.
  // They hold zeros from now on, but for what is returned, which is the caller's to clear: parts of
  // blocks by writing to them, which may fault; what is held by giving it back to the kernel.
  struct Uncleared {
    std::vector<Part> parts;
    std::vector<Part> held;
  };
  Uncleared clear(const Part& pages);
  // They are not the program's any more. When none is left the allocation is freed.
  void give_up(const Part& pages);
  // Whether all of them are still the program's.
  [[nodiscard]] bool has_all(const Part& pages);
  // They stay where they are, resident, for as long as they are so marked: so their protection may
  // be changed. False if there is no room for that in the budget: nothing has changed.
  [[nodiscard]] bool hold(const Part& pages, PageMarks::Mark mark);
  void release(const Part& pages, PageMarks::Mark mark);
  // All pages of that mark, of all allocations.
  void release_all(PageMarks::Mark mark);
  // A mark that keeps them nowhere; release takes it off again.
  void note(const Part& pages, PageMarks::Mark mark);
  // Whether the page at that address has one of these marks.
  [[nodiscard]] bool has_mark(const void* address, unsigned marks);
  // Of all allocations, the pages that have all marks of `with` and none of `without`.
  [[nodiscard]] std::vector<Part> parts(unsigned with, unsigned without);

 private:
  // Sizes are rounded up to this, so that nearly equal ones share what they leave behind.
  static constexpr Bytes kSizeStep = 64 * kKiB;
  // An allocation in use.
  struct Used {
    Bytes size = 0;         // what it takes
    Bytes asked_bytes = 0;  // of which so much is the program's, in whole pages
    std::optional<PageMarks> marks{};
    std::map<Bytes, LaunchId> held{};  // blocks, by where they begin in it: launches without an end
    bool in_parts = false;             // blocks have been given up
    Bytes most_bytes = 0;              // to which it may grow where it is
    Bytes place_bytes = 0;             // what it took of what was retired, if that was more
  };
  using UsedAt = std::map<char*, Used>;

  Result<void*> make(Bytes size, bool zeros) SPILLWAY_REQUIRES(mutex_);
  void trim() SPILLWAY_REQUIRES(mutex_);
  void give_up_oldest() SPILLWAY_REQUIRES(mutex_);
  struct Place {
    void* start = nullptr;
    Bytes size = 0;  // at least what was asked for
  };
  Place take_retired(Bytes size, std::uint64_t place) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Place warm_place(Bytes size) const SPILLWAY_REQUIRES(mutex_);
  void note_kept_from(Bytes size, bool has_its_own) SPILLWAY_REQUIRES(mutex_);
  void keep_retired(void* start, Bytes size) SPILLWAY_REQUIRES(mutex_);
  void end(UsedAt::iterator used) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] UsedAt::iterator at(const void* address) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] static PageMarks& marks_of(Used& used);
  bool hold_block(char* start, Used& used, Bytes block);
  void release_unmarked(Used& used);

  ProgramPlatform& platform_;
  Mutex mutex_;
  UsedAt used_ SPILLWAY_GUARDED_BY(mutex_);
  Bytes used_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // their sum
  Bytes most_used_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes spare_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // of last blocks in places that are larger
  // Sizes of places that smaller memory is in, and its size.
  std::map<Bytes, Bytes> in_part_ SPILLWAY_GUARDED_BY(mutex_);
  // Sizes that have kept a place from memory that fits it: they get their own.
  std::set<Bytes> own_places_ SPILLWAY_GUARDED_BY(mutex_);
  // By size and address, when it was freed; and in that order.
  std::map<std::pair<Bytes, void*>, std::uint64_t> retired_ SPILLWAY_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::pair<Bytes, void*>> by_age_ SPILLWAY_GUARDED_BY(mutex_);
  std::uint64_t frees_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes retired_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, void*> last_at_ SPILLWAY_GUARDED_BY(mutex_);  // by place
};

}  // namespace spillway
