// See refused.h.
#include "runtime/run/refused.h"

#include <atomic>

namespace spillway {
namespace {

std::atomic<std::uint64_t> refused_allocations{0};
std::atomic<Bytes> largest_refused_bytes{0};

}  // namespace

void note_refused(Bytes bytes) {
  ++refused_allocations;
  Bytes largest_bytes = largest_refused_bytes;
  while (bytes > largest_bytes &&
         !largest_refused_bytes.compare_exchange_weak(largest_bytes, bytes)) {
  }
}

Refused refused_so_far() {
  return {.allocations = refused_allocations, .largest_bytes = largest_refused_bytes};
}

}  // namespace spillway
