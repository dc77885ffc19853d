// What allocators offer beside malloc, under names of their own, for pointers that malloc gave:
// jemalloc's, tcmalloc's, and C23's. Layer: interpose, host.
// Those that only allocate are left alone: what they give is the allocator's from birth to end. A
// program that asks whether there is such a function finds one even where no allocator has it; it
// then does what free, realloc or malloc_usable_size does.
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "interpose/host/next.h"
#include "interpose/host/session.h"
#include "interpose/host/take.h"

namespace spillway::preload {
namespace {

// Of jemalloc's flags.
constexpr int kAlignmentBits = 0x3f;
constexpr int kZero = 0x40;

std::size_t alignment_of(int flags) {
  return std::max(std::size_t{1} << static_cast<unsigned>(flags & kAlignmentBits),
                  alignof(std::max_align_t));
}

void zero_behind(void* start, std::size_t old_bytes, std::size_t bytes, int flags) {
  if ((flags & kZero) != 0 && bytes > old_bytes) {
    std::memset(static_cast<char*>(start) + old_bytes, 0, bytes - old_bytes);
  }
}

// What is ours lies at the alignment that any of them may ask for, and may move to any allocator.
void* resize(void* start, std::size_t bytes, int flags) {
  const std::size_t old_bytes = ::malloc_usable_size(start);
  const bool stays = in_space(start) && ((bytes <= old_bytes && bytes >= old_bytes / 2) ||
                                         (bytes > old_bytes && grow(start, bytes)));
  void* const resized = stays ? start : ::memalign(alignment_of(flags), bytes);
  if (resized == nullptr) {
    return nullptr;
  }
  if (!stays) {
    std::memcpy(resized, start, std::min(old_bytes, bytes));
    ::free(start);
  }
  zero_behind(resized, old_bytes, bytes, flags);
  return resized;
}

// Gives it to whoever has it: ourselves, the function of this name, or free.
template <typename... More>
void free_by(void (*function)(void*, More...), void* start, More... more) {
  if (start == nullptr || in_space(start) || function == nullptr) {
    ::free(start);
  } else {
    function(start, more...);
  }
}

std::size_t size_by(std::size_t (*function)(void*), void* start) {
  return start == nullptr || in_space(start) || function == nullptr ? ::malloc_usable_size(start)
                                                                    : function(start);
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

// NOLINTBEGIN(*-macro-usage): the same few lines for each name
#define SPILLWAY_FREES(name)                                    \
  void name(void* start) noexcept {                             \
    static const auto next = pre::next<void (*)(void*)>(#name); \
    pre::free_by(next, start);                                  \
  }
#define SPILLWAY_FREES_WITH(name, Type)                               \
  void name(void* start, Type more) noexcept {                        \
    static const auto next = pre::next<void (*)(void*, Type)>(#name); \
    pre::free_by(next, start, more);                                  \
  }
#define SPILLWAY_FREES_WITH_TWO(name, One, Other)                           \
  void name(void* start, One one, Other other) noexcept {                   \
    static const auto next = pre::next<void (*)(void*, One, Other)>(#name); \
    pre::free_by(next, start, one, other);                                  \
  }

extern "C" {

// C23
SPILLWAY_FREES_WITH(free_sized, std::size_t)
SPILLWAY_FREES_WITH_TWO(free_aligned_sized, std::size_t, std::size_t)

// jemalloc
SPILLWAY_FREES_WITH(dallocx, int)
SPILLWAY_FREES_WITH_TWO(sdallocx, std::size_t, int)

std::size_t sallocx(const void* start, int flags) noexcept {
  static const auto next = pre::next<std::size_t (*)(const void*, int)>("sallocx");
  return pre::in_space(start) || next == nullptr
             ? ::malloc_usable_size(const_cast<void*>(start))  // NOLINT(*-const-cast)
             : next(start, flags);
}

void* rallocx(void* start, std::size_t bytes, int flags) noexcept {
  static const auto next = pre::next<void* (*)(void*, std::size_t, int)>("rallocx");
  return pre::in_space(start) || next == nullptr ? pre::resize(start, bytes, flags)
                                                 : next(start, bytes, flags);
}

std::size_t xallocx(void* start, std::size_t bytes, std::size_t extra, int flags) noexcept {
  static const auto next =
      pre::next<std::size_t (*)(void*, std::size_t, std::size_t, int)>("xallocx");
  if (!pre::in_space(start) && next != nullptr) {
    return next(start, bytes, extra, flags);
  }
  const std::size_t old_bytes = ::malloc_usable_size(start);
  if (pre::in_space(start) && bytes > old_bytes && !pre::grow(start, bytes + extra)) {
    (void)pre::grow(start, bytes);
  }
  const std::size_t now_bytes = ::malloc_usable_size(start);
  pre::zero_behind(start, old_bytes, now_bytes, flags);
  return now_bytes;
}

// tcmalloc
SPILLWAY_FREES(tc_free)
SPILLWAY_FREES(tc_cfree)
SPILLWAY_FREES_WITH(tc_free_sized, std::size_t)
SPILLWAY_FREES(tc_delete)
SPILLWAY_FREES(tc_deletearray)
SPILLWAY_FREES_WITH(tc_delete_sized, std::size_t)
SPILLWAY_FREES_WITH(tc_deletearray_sized, std::size_t)
SPILLWAY_FREES_WITH(tc_delete_nothrow, const std::nothrow_t*)
SPILLWAY_FREES_WITH(tc_deletearray_nothrow, const std::nothrow_t*)
SPILLWAY_FREES_WITH(tc_delete_aligned, std::align_val_t)
SPILLWAY_FREES_WITH(tc_deletearray_aligned, std::align_val_t)
SPILLWAY_FREES_WITH_TWO(tc_delete_sized_aligned, std::size_t, std::align_val_t)
SPILLWAY_FREES_WITH_TWO(tc_deletearray_sized_aligned, std::size_t, std::align_val_t)

std::size_t tc_malloc_size(void* start) noexcept {
  static const auto next = pre::next<std::size_t (*)(void*)>("tc_malloc_size");
  return pre::size_by(next, start);
}

void* tc_realloc(void* start, std::size_t bytes) noexcept {
  static const auto next = pre::next<void* (*)(void*, std::size_t)>("tc_realloc");
  return next != nullptr && (start == nullptr || !pre::in_space(start)) ? next(start, bytes)
                                                                        : ::realloc(start, bytes);
}
}
// NOLINTEND(*-macro-usage)
