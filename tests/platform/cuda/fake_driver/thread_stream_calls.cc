// Calls whose stream 0 is the calling thread's own default stream. Fake driver.
#include "world.h"

namespace fake_cuda {
namespace {

CuStream of_thread(CuStream stream) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return stream != nullptr ? stream : reinterpret_cast<CuStream>(kCuStreamPerThread);
}

}  // namespace

CuResult cuLaunchKernel_ptsz(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, CuStream stream, void** parameters,
                             void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        of_thread(stream), parameters, extra);
}

CuResult cuLaunchKernelEx_ptsz(const CuLaunchConfig* config, CuFunction function, void** parameters,
                               void** extra) {
  CuLaunchConfig mine = *config;
  mine.stream = of_thread(mine.stream);
  return cuLaunchKernelEx(&mine, function, parameters, extra);
}

CuResult cuLaunchCooperativeKernel_ptsz(CuFunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes, CuStream stream,
                                        void** parameters) {
  return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                   shared_bytes, of_thread(stream), parameters);
}

CuResult cuMemAllocAsync_ptsz(CuAddress* address, std::size_t bytes, CuStream stream) {
  return cuMemAllocAsync(address, bytes, of_thread(stream));
}

CuResult cuMemFreeAsync_ptsz(CuAddress address, CuStream stream) {
  return cuMemFreeAsync(address, of_thread(stream));
}

CuResult cuMemcpyHtoD_v2_ptds(CuAddress to, const void* from, std::size_t bytes) {
  const CuResult result = cuMemcpyHtoDAsync_v2(to, from, bytes, of_thread(nullptr));
  return result == CuResult::kSuccess ? cuStreamSynchronize(of_thread(nullptr)) : result;
}

CuResult cuMemcpyDtoH_v2_ptds(void* to, CuAddress from, std::size_t bytes) {
  const CuResult result = cuMemcpyDtoHAsync_v2(to, from, bytes, of_thread(nullptr));
  return result == CuResult::kSuccess ? cuStreamSynchronize(of_thread(nullptr)) : result;
}

CuResult cuMemcpyDtoDAsync_v2_ptsz(CuAddress to, CuAddress from, std::size_t bytes,
                                   CuStream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, of_thread(stream));
}

CuResult cuMemsetD8Async_ptsz(CuAddress to, unsigned char byte, std::size_t bytes,
                              CuStream stream) {
  return cuMemsetD8Async(to, byte, bytes, of_thread(stream));
}

CuResult cuStreamSynchronize_ptsz(CuStream stream) {
  return cuStreamSynchronize(of_thread(stream));
}

CuResult cuEventRecord_ptsz(CuEvent event, CuStream stream) {
  return cuEventRecord(event, of_thread(stream));
}

CuResult cuStreamWaitEvent_ptsz(CuStream stream, CuEvent event, unsigned flags) {
  return cuStreamWaitEvent(of_thread(stream), event, flags);
}

}  // namespace fake_cuda
