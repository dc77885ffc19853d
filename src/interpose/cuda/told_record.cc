// The record so far, for the program itself: python/spillway/counters.py asks for it.
// Layer: interpose, cuda.
#include "interpose/cuda/session.h"
#include "platform/common/process/service_thread.h"

extern "C" {

// As JSON; see spillway::copy_json.
std::size_t spillway_record_so_far(char* to, std::size_t bytes) {
  const spillway::InService inside;
  return spillway::copy_json(spillway::cuda::record_so_far(), to, bytes);
}

}  // extern "C"
