// See host_lists.h.
#include "interpose/cuda/operands/host_lists.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "base/mutex.h"
#include "base/units.h"

namespace spillway::cuda {
namespace detail {
std::atomic<std::uint64_t> host_lists_begin{std::numeric_limits<std::uint64_t>::max()};
std::atomic<std::uint64_t> host_lists_end{0};
}  // namespace detail

namespace {

constexpr std::uint64_t kListPageBytes = 4096;

// Where in a large piece addresses were found.
struct FoundPages {
  Mutex mutex;
  std::set<std::uint64_t> starts SPILLWAY_GUARDED_BY(mutex);
  std::uint64_t times SPILLWAY_GUARDED_BY(mutex) = 0;  // that it was looked at
};
struct Piece {
  std::size_t bytes = 0;
  CuContext context = nullptr;
  std::shared_ptr<FoundPages> found;  // nullptr: it is small
};
struct Pieces {
  SharedMutex mutex;
  std::map<std::uint64_t, Piece> at SPILLWAY_GUARDED_BY(mutex);  // by start
};
Pieces& pieces() {
  static auto* const all = new Pieces;  // threads of the program may run until the very end
  return *all;
}

}  // namespace

void note_pinned(const void* memory, std::size_t bytes, CuContext context) {
  if (memory == nullptr || bytes == 0) {
    return;
  }
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  const MutexLock lock(pieces().mutex);
  pieces().at[start] = {
      .bytes = bytes,
      .context = context,
      .found = bytes > kMostHostListBytes ? std::make_shared<FoundPages>() : nullptr};
  detail::host_lists_begin = std::min(detail::host_lists_begin.load(), start);
  detail::host_lists_end = std::max(detail::host_lists_end.load(), start + bytes);
}

void forget_pinned(const void* memory) {
  const MutexLock lock(pieces().mutex);
  pieces().at.erase(reinterpret_cast<std::uint64_t>(memory));
}

void forget_pinned_of(CuContext context) {
  const MutexLock lock(pieces().mutex);
  std::erase_if(pieces().at, [&](const auto& it) { return it.second.context == context; });
}

std::uint64_t host_list_at(std::uint64_t address, bool large) {
  const SharedLock lock(pieces().mutex);
  const auto after = pieces().at.upper_bound(address);
  if (after == pieces().at.begin()) {
    return 0;
  }
  const auto& [start, piece] = *std::prev(after);
  return address - start < piece.bytes && (large || piece.found == nullptr) ? start : 0;
}

void visit_host_list(std::uint64_t start, bool same_launch,
                     const std::function<bool(std::span<const std::uint64_t>)>& visit) {
  const SharedLock lock(pieces().mutex);
  const auto found = pieces().at.find(start);
  if (found == pieces().at.end()) {
    return;
  }
  // What is registered may begin anywhere.
  const std::uint64_t first = round_up(start, sizeof(std::uint64_t));
  const std::uint64_t end = start + found->second.bytes;
  const auto visit_from = [&](std::uint64_t from, std::uint64_t to) {
    from = std::max(from, first);
    to = std::min(to, end);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as the program was given it
    return from < to && visit({reinterpret_cast<const std::uint64_t*>(from),
                               (to - from) / sizeof(std::uint64_t)});
  };
  if (found->second.found == nullptr) {
    (void)visit_from(first, end);
    return;
  }
  FoundPages& pages = *found->second.found;
  const MutexLock pages_lock(pages.mutex);
  constexpr std::uint64_t kAlwaysWhole = 3;
  pages.times += same_launch ? 0 : 1;
  constexpr std::uint64_t kMostScannedAgainBytes = std::uint64_t{256} << 20U;  // more is data
  const bool again = found->second.bytes <= kMostScannedAgainBytes;
  if (pages.times <= (again ? kAlwaysWhole : 1) || (again && std::has_single_bit(pages.times))) {
    for (std::uint64_t at = first / kListPageBytes * kListPageBytes; at < end;
         at += kListPageBytes) {
      if (visit_from(at, at + kListPageBytes)) {
        pages.starts.insert(at);
      }
    }
    return;
  }
  std::set<std::uint64_t> here;
  for (const std::uint64_t at : pages.starts) {
    here.insert({at - kListPageBytes, at, at + kListPageBytes});
  }
  for (const std::uint64_t at : here) {
    if (visit_from(at, at + kListPageBytes)) {
      pages.starts.insert(at);
    }
  }
}

}  // namespace spillway::cuda
