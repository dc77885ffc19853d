// How much of a range of this process's memory is present. Layer: tests of the CUDA platform.
#pragma once

#include <sys/mman.h>

#include <cerrno>

#include "base/units.h"
#include "platform/common/process/memory_advice.h"
#include "platform/common/process/reservation.h"
#include "platform/resident_pages.h"

namespace spillway::cuda {

// Whole pages.
inline Bytes present_bytes(char* start, Bytes bytes) {
  return kPageBytes * resident_pages(start, bytes);
}

// Whether this system can make pages present for somebody: Linux 5.14.
inline bool makes_present() {
  const Result<Reservation> trial = Reservation::make(kBlockBytes);
  return trial && (::madvise(trial->start(), kBlockBytes, kPopulateWrite) == 0 || errno != EINVAL);
}

}  // namespace spillway::cuda
