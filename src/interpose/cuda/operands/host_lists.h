// Pinned host memory of the program: kernels that are given a piece may find addresses of the space
// there (NCCL's queue of work, where a group is too large for a launch's parameters).
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "interpose/cuda/call_types.h"

namespace spillway::cuda {

// Larger pieces are looked at only for kernels that may follow addresses in memory, and not always
// as a whole.
inline constexpr std::size_t kMostHostListBytes = std::size_t{4} << 20U;

// In this context, with which it ends.
void note_pinned(const void* memory, std::size_t bytes, CuContext context);
// Before it is given back.
void forget_pinned(const void* memory);
void forget_pinned_of(CuContext context);

namespace detail {
// Where they lie; empty as long as there are none.
extern std::atomic<std::uint64_t> host_lists_begin;
extern std::atomic<std::uint64_t> host_lists_end;
}  // namespace detail

// Quick, and wrong only where it says yes.
[[nodiscard]] inline bool may_be_in_host_list(std::uint64_t word) {
  return word >= detail::host_lists_begin.load(std::memory_order_relaxed) &&
         word < detail::host_lists_end.load(std::memory_order_relaxed);
}
// Where the piece begins in which this address lies; 0 if there is none, or none that is looked at:
// `large` ones are.
[[nodiscard]] std::uint64_t host_list_at(std::uint64_t address, bool large);
// Its words, which stay while they are visited; `visit` says whether it has found an address among
// those that it is given. Of a large one the whole is visited the first three times, and the 4th,
// 8th, 16th and so on; else the pages in which addresses were found, and those beside them.
// `same_launch`: that does not count as another time.
void visit_host_list(std::uint64_t start, bool same_launch,
                     const std::function<bool(std::span<const std::uint64_t>)>& visit);

}  // namespace spillway::cuda
