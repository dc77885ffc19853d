// Pinned host memory of the program. It is the driver's; what is small may hold addresses of the
// space. Layer: interpose, cuda.
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/operands/host_lists.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {
namespace {

// Of what is allocated: processors read it slowly; of what is registered: it is a device's.
constexpr unsigned kNotForReading = 4;

template <typename Call>
CuResult pin(void* const* memory, std::size_t bytes, unsigned flags, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const CuResult result = here.driver(call);
  const bool is_read = (flags & kNotForReading) == 0 || bytes <= kMostHostListBytes;
  if (!here.inner() && result == CuResult::kSuccess && is_read) {
    CuContext context = nullptr;
    (void)real().cuCtxGetCurrent(&context);
    note_pinned(*memory, bytes, context);
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return cuda::pin(memory, bytes, flags,
                   [&] { return cuda::real().cuMemHostAlloc(memory, bytes, flags); });
}

CuResult cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  return cuda::pin(memory, bytes, 0, [&] { return cuda::real().cuMemAllocHost_v2(memory, bytes); });
}

CuResult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  return cuda::pin(&memory, bytes, flags,
                   [&] { return cuda::real().cuMemHostRegister_v2(memory, bytes, flags); });
}

}  // extern "C"
