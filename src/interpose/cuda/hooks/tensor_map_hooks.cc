// Tensor maps, which the driver makes of addresses. Layer: interpose, cuda.
#include "interpose/cuda/operands/encoded_addresses.h"
#include "interpose/cuda/stream_work.h"

namespace spillway::cuda {
namespace {

template <typename Call>
CuResult encode(const CuTensorMap* map, const void* address, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const CuResult result = here.driver(call);
  if (const Session* const session = here.seen_by();
      session != nullptr && result == CuResult::kSuccess) {
    note_encoded(*session, *map, reinterpret_cast<std::uint64_t>(address));
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuTensorMapEncodeTiled(CuTensorMap* map, unsigned type, unsigned rank, void* address,
                                const std::uint64_t* sizes, const std::uint64_t* strides_bytes,
                                const std::uint32_t* box, const std::uint32_t* steps,
                                unsigned interleave, unsigned swizzle, unsigned promotion,
                                unsigned fill) {
  return cuda::encode(
      map, address,
      SPILLWAY_CALL(cuTensorMapEncodeTiled, map, type, rank, address, sizes, strides_bytes, box,
                    steps, interleave, swizzle, promotion, fill));
}
CuResult cuTensorMapEncodeIm2col(CuTensorMap* map, unsigned type, unsigned rank, void* address,
                                 const std::uint64_t* sizes, const std::uint64_t* strides_bytes,
                                 const int* lower, const int* upper, unsigned channels,
                                 unsigned pixels, const std::uint32_t* steps, unsigned interleave,
                                 unsigned swizzle, unsigned promotion, unsigned fill) {
  return cuda::encode(
      map, address,
      SPILLWAY_CALL(cuTensorMapEncodeIm2col, map, type, rank, address, sizes, strides_bytes, lower,
                    upper, channels, pixels, steps, interleave, swizzle, promotion, fill));
}
CuResult cuTensorMapEncodeIm2colWide(CuTensorMap* map, unsigned type, unsigned rank, void* address,
                                     const std::uint64_t* sizes, const std::uint64_t* strides_bytes,
                                     int lower, int upper, unsigned channels, unsigned pixels,
                                     const std::uint32_t* steps, unsigned interleave, unsigned mode,
                                     unsigned swizzle, unsigned promotion, unsigned fill) {
  return cuda::encode(map, address,
                      SPILLWAY_CALL(cuTensorMapEncodeIm2colWide, map, type, rank, address, sizes,
                                    strides_bytes, lower, upper, channels, pixels, steps,
                                    interleave, mode, swizzle, promotion, fill));
}
CuResult cuTensorMapReplaceAddress(CuTensorMap* map, void* address) {
  return cuda::encode(map, address, SPILLWAY_CALL(cuTensorMapReplaceAddress, map, address));
}

}  // extern "C"
