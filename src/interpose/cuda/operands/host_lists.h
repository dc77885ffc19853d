// Small pieces of pinned host memory of the program: kernels that are given one may find addresses
// of the space there (NCCL's queue of work, where a group is too large for a launch's parameters).
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "interpose/cuda/call_types.h"

namespace spillway::cuda {

// Larger pieces are data, and are not looked at.
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
// The words of the piece in which this address lies, if there is one; it stays while they are
// visited.
void visit_host_list(std::uint64_t address,
                     const std::function<void(std::span<const std::uint64_t>)>& visit);

}  // namespace spillway::cuda
