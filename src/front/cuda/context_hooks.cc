// Contexts that end: what is ours in them ends as well. Layer: front, cuda.
#include "front/cuda/driver_memory.h"
#include "front/cuda/hook_table.h"
#include "front/cuda/kernel_layouts.h"
#include "front/cuda/own_kernels.h"
#include "front/cuda/session.h"
#include "front/cuda/told_kernels.h"

namespace spillway::cuda {
namespace {

// Handles of its kernels and streams may be given to others.
void ended(CuContext context) {
  forget_told_kernels();
  forget_kernel_layouts();
  driver_has_back_all_of(context);
  if (const Session* const here = session()) {
    here->platform->context_ended(context);
  }
}

template <typename Call>
CuResult end_context(CuContext context, const Call& call) {
  tell_that_code_ends();
  forget_own_kernels(context);
  const CuResult result = call();
  if (result == CuResult::kSuccess) {
    ended(context);
  }
  return result;
}

// The primary context, which nobody names: it is ours to know if it is the one that is served.
template <typename Call>
CuResult reset_primary(CuDevice device, const Call& call) {
  const Session* const here = session();
  if (here == nullptr || here->device != device) {
    return call();
  }
  return end_context(here->context, call);
}

// It goes with the last that has retained it.
template <typename Call>
CuResult release_primary(CuDevice device, const Call& call) {
  const CuResult result = call();
  const Session* const here = session();
  unsigned flags = 0;
  int active = 1;
  if (here != nullptr && here->device == device &&
      real().cuDevicePrimaryCtxGetState(device, &flags, &active) == CuResult::kSuccess &&
      active == 0) {
    forget_own_kernels(here->context);
    ended(here->context);
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuCtxDestroy(CuContext context) {
  return end_context(context, [&] { return cuda::real().cuCtxDestroy(context); });
}
CuResult cuCtxDestroy_v2(CuContext context) {
  return end_context(context, [&] { return cuda::real().cuCtxDestroy_v2(context); });
}
CuResult cuDevicePrimaryCtxReset(CuDevice device) {
  return reset_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxReset(device); });
}
CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return reset_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxReset_v2(device); });
}
CuResult cuDevicePrimaryCtxRelease(CuDevice device) {
  return release_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxRelease(device); });
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return release_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxRelease_v2(device); });
}

}  // extern "C"
