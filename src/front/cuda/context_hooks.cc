// Contexts that end: what is ours in them ends as well. Layer: front, cuda.
#include "front/cuda/fill_kernel.h"
#include "front/cuda/hook_table.h"
#include "front/cuda/kernel_layouts.h"

namespace spillway::cuda {
namespace {

// Handles of its kernels may be given to others.
void context_ended() {
  forget_fill_kernel();
  forget_kernel_layouts();
}

template <typename Call>
CuResult end_context(const Call& call) {
  forget_fill_kernel();
  const CuResult result = call();
  context_ended();
  return result;
}

// Its context goes with the last that has retained it.
template <typename Call>
CuResult release_primary(CuDevice device, const Call& call) {
  const CuResult result = call();
  unsigned flags = 0;
  int active = 0;
  if (real().cuDevicePrimaryCtxGetState(device, &flags, &active) != CuResult::kSuccess ||
      active == 0) {
    context_ended();
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuCtxDestroy(CuContext context) {
  return end_context([&] { return cuda::real().cuCtxDestroy(context); });
}
CuResult cuCtxDestroy_v2(CuContext context) {
  return end_context([&] { return cuda::real().cuCtxDestroy_v2(context); });
}
CuResult cuDevicePrimaryCtxReset(CuDevice device) {
  return end_context([&] { return cuda::real().cuDevicePrimaryCtxReset(device); });
}
CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return end_context([&] { return cuda::real().cuDevicePrimaryCtxReset_v2(device); });
}
CuResult cuDevicePrimaryCtxRelease(CuDevice device) {
  return release_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxRelease(device); });
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return release_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxRelease_v2(device); });
}

}  // extern "C"
