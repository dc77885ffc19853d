// See replay_memory.h.
#include "interpose/cuda/replay/replay_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "engine/launches/recomputable.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kPlaceBytes = 16 * kKiB;
constexpr std::size_t kCopyPlaces = 256;
constexpr Bytes kCopiesBytes = kCopyPlaces * kPlaceBytes;

}  // namespace

class CopyPlaces {
 public:
  explicit CopyPlaces(CuAddress address) : address_(address), taken_(kCopyPlaces) {}

  // The first of as many in a row; kCopyPlaces: there are none.
  [[nodiscard]] std::size_t take(std::size_t count) {
    const MutexLock lock(mutex_);
    const auto from = std::search_n(taken_.begin(), taken_.end(), count, false);
    if (from == taken_.end()) {
      return kCopyPlaces;
    }
    std::fill_n(from, count, true);
    return static_cast<std::size_t>(from - taken_.begin());
  }
  void give_back(std::size_t first, std::size_t count) {
    const MutexLock lock(mutex_);
    std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(first), count, false);
  }
  [[nodiscard]] CuAddress at(std::size_t place) const { return address_ + place * kPlaceBytes; }

 private:
  CuAddress address_;
  Mutex mutex_;
  std::vector<bool> taken_ SPILLWAY_GUARDED_BY(mutex_);
};

SmallCopy::~SmallCopy() { of_->give_back(first_, count_); }

namespace {

struct KeptMemory {
  CuAddress workspace = 0;
  Bytes workspace_bytes = 0;
  std::shared_ptr<CopyPlaces> copies;
};
struct AllKeptMemory {
  Mutex mutex;
  std::map<CuStream, KeptMemory> of SPILLWAY_GUARDED_BY(mutex);
  // As much is not asked for again: to ask takes calls of the driver.
  Bytes refused_bytes SPILLWAY_GUARDED_BY(mutex) = kMostWorkspaceBytes + 1;
};
AllKeptMemory& all_kept_memory() {
  static auto* const all = new AllKeptMemory;  // threads of the program may run until the very end
  return *all;
}

// 0: there is none.
CuAddress make_extra(AllKeptMemory& all, const Session& session, Bytes bytes)
    SPILLWAY_REQUIRES(all.mutex) {
  if (bytes >= all.refused_bytes) {
    return 0;
  }
  const CuAddress made = session.platform->recompute().make_extra_memory(bytes);
  if (made == 0) {
    all.refused_bytes = bytes;
  }
  return made;
}

}  // namespace

// A larger one leaves the smaller to launches that are kept.
CuAddress own_workspace(const Session& session, CuStream stream, Bytes bytes) {
  AllKeptMemory& all = all_kept_memory();
  const MutexLock lock(all.mutex);
  KeptMemory& kept = all.of[stream];
  if (kept.workspace_bytes < bytes) {
    const CuAddress made = make_extra(all, session, bytes);
    if (made == 0) {
      return 0;
    }
    kept.workspace = made;
    kept.workspace_bytes = bytes;
  }
  return kept.workspace;
}

std::shared_ptr<SmallCopy> place_for_copy(const Session& session, CuStream stream, Bytes bytes) {
  std::shared_ptr<CopyPlaces> places;
  {
    AllKeptMemory& all = all_kept_memory();
    const MutexLock lock(all.mutex);
    KeptMemory& kept = all.of[stream];
    if (kept.copies == nullptr) {
      const CuAddress made = make_extra(all, session, kCopiesBytes);
      if (made == 0) {
        return nullptr;
      }
      kept.copies = std::make_shared<CopyPlaces>(made);
    }
    places = kept.copies;
  }
  const std::size_t count = (bytes + kPlaceBytes - 1) / kPlaceBytes;
  const std::size_t first = places->take(count);
  return first == kCopyPlaces
             ? nullptr
             : std::make_shared<SmallCopy>(places, first, count, places->at(first));
}

void forget_kept_memory(CuStream stream) {
  AllKeptMemory& all = all_kept_memory();
  const MutexLock lock(all.mutex);
  all.of.erase(stream);
}

}  // namespace spillway::cuda
