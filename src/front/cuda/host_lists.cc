// See host_lists.h.
#include "front/cuda/host_lists.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "base/units.h"

namespace spillway::cuda {
namespace detail {
std::atomic<std::uint64_t> host_lists_begin{std::numeric_limits<std::uint64_t>::max()};
std::atomic<std::uint64_t> host_lists_end{0};
}  // namespace detail

namespace {

struct Pieces {
  std::shared_mutex mutex;
  std::map<std::uint64_t, std::size_t> bytes_at;  // by start
};
Pieces& pieces() {
  static auto* const all = new Pieces;  // threads of the program may run until the very end
  return *all;
}

}  // namespace

void note_pinned(const void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0 || bytes > kMostHostListBytes) {
    return;
  }
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  const std::unique_lock lock(pieces().mutex);
  pieces().bytes_at[start] = bytes;
  detail::host_lists_begin = std::min(detail::host_lists_begin.load(), start);
  detail::host_lists_end = std::max(detail::host_lists_end.load(), start + bytes);
}

void forget_pinned(const void* memory) {
  const std::unique_lock lock(pieces().mutex);
  pieces().bytes_at.erase(reinterpret_cast<std::uint64_t>(memory));
}

void visit_host_list(std::uint64_t address,
                     const std::function<void(std::span<const std::uint64_t>)>& visit) {
  const std::shared_lock lock(pieces().mutex);
  const auto after = pieces().bytes_at.upper_bound(address);
  if (after == pieces().bytes_at.begin()) {
    return;
  }
  const auto [start, bytes] = *std::prev(after);
  // What is registered may begin anywhere.
  const std::uint64_t first = round_up(start, sizeof(std::uint64_t));
  const std::uint64_t end = start + bytes;
  if (address < end && first < end) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as the program was given it
    visit({reinterpret_cast<const std::uint64_t*>(first), (end - first) / sizeof(std::uint64_t)});
  }
}

}  // namespace spillway::cuda
