// What programs do to pages of the space, as the kernel does it to pages of a mapping.
// Layer: interpose, host.
// In the child of a fork the pages are the child's alone, and its kernel's; only the addresses stay
// taken.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace spillway::preload {

inline constexpr int kReadWrite = PROT_READ | PROT_WRITE;

// Whether any of these bytes lies in the space.
[[nodiscard]] bool meets_space(const void* start, std::size_t bytes);

// Each answers as the system call of that name: 0, or -1 with errno. `start` and `bytes` lie in the
// space, at least in part; what lies elsewhere is the kernel's affair.
int unmap_pages(void* start, std::size_t bytes);
int protect_pages(void* start, std::size_t bytes, int protection);
int advise_pages(void* start, std::size_t bytes, int advice);
// Whether that page is to be empty in the children of a fork.
[[nodiscard]] bool wiped_in_children(const void* start);
int lock_pages(void* start, std::size_t bytes);
int unlock_pages(void* start, std::size_t bytes);
void unlock_all_pages();
// A new anonymous mapping in the place of whatever is there.
int renew_pages(void* start, std::size_t bytes, int protection);

}  // namespace spillway::preload
