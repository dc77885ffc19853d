// See host_lists.h.
#include "interpose/cuda/operands/host_lists.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "base/mutex.h"
#include "base/units.h"

namespace spillway::cuda {
namespace detail {
std::atomic<std::uint64_t> host_lists_begin{std::numeric_limits<std::uint64_t>::max()};
std::atomic<std::uint64_t> host_lists_end{0};
}  // namespace detail

namespace {

struct Piece {
  std::size_t bytes = 0;
  CuContext context = nullptr;
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
  if (memory == nullptr || bytes == 0 || bytes > kMostHostListBytes) {
    return;
  }
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  const MutexLock lock(pieces().mutex);
  pieces().at[start] = {.bytes = bytes, .context = context};
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

void visit_host_list(std::uint64_t address,
                     const std::function<void(std::span<const std::uint64_t>)>& visit) {
  const SharedLock lock(pieces().mutex);
  const auto after = pieces().at.upper_bound(address);
  if (after == pieces().at.begin()) {
    return;
  }
  const std::uint64_t start = std::prev(after)->first;
  const std::size_t bytes = std::prev(after)->second.bytes;
  // What is registered may begin anywhere.
  const std::uint64_t first = round_up(start, sizeof(std::uint64_t));
  const std::uint64_t end = start + bytes;
  if (address < end && first < end) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as the program was given it
    visit({reinterpret_cast<const std::uint64_t*>(first), (end - first) / sizeof(std::uint64_t)});
  }
}

}  // namespace spillway::cuda
