// What an older C library's headers do not declare: included before everything in the portable
// build (cmake/Portable.cmake). Layer: portable.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" {
// NOLINTNEXTLINE(readability-redundant-declaration): not of an older one
int close_range(unsigned first, unsigned last, int flags) noexcept;  // 2.34; in old_glibc.cc
ssize_t process_madvise(int process, const iovec* ranges, size_t count, int advice,
                        unsigned flags) noexcept;  // 2.36; where it is called it is ours
}
