// Other devices that the program lets use its memory: of pools and of contexts. What is the space's
// they may then use as well, wherever its memory comes to lie. Layer: interpose, cuda.
#include <algorithm>
#include <span>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/session.h"

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

// Whose pool it is does not matter: there is one device whose memory is the space's.
CuResult cuMemPoolSetAccess(CuMemPool pool, const CuAccessDescription* descriptions,
                            std::size_t count) {
  cuda::ProgramCall here(CallKind::kOther);
  const CuResult result =
      here.driver([&] { return cuda::real().cuMemPoolSetAccess(pool, descriptions, count); });
  if (!here.inner() && result == CuResult::kSuccess) {
    for (const CuAccessDescription& it : std::span(descriptions, count)) {
      if (it.location.type == CuLocationType::kDevice && it.access != CuAccess::kNone) {
        cuda::share_with(it.location.id);
      }
    }
  }
  return result;
}

// The device of the calling thread's context may use the other's memory.
CuResult cuCtxEnablePeerAccess(CuContext peer, unsigned flags) {
  cuda::ProgramCall here(CallKind::kOther);
  const CuResult result =
      here.driver([&] { return cuda::real().cuCtxEnablePeerAccess(peer, flags); });
  CuDevice device = 0;
  if (!here.inner() && result == CuResult::kSuccess &&
      cuda::real().cuCtxGetDevice(&device) == CuResult::kSuccess) {
    cuda::share_with(device);
  }
  return result;
}

}  // extern "C"
