// Advice to madvise(2) that is newer than some systems' headers: Linux 5.14 to 6.1. A system that
// does not know it says EINVAL. Layer: platform, common.
#pragma once

namespace spillway {

inline constexpr int kPopulateRead = 22;    // MADV_POPULATE_READ
inline constexpr int kPopulateWrite = 23;   // MADV_POPULATE_WRITE
inline constexpr int kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED
inline constexpr int kCollapse = 25;        // MADV_COLLAPSE

}  // namespace spillway
