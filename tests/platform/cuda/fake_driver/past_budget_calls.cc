// Ways to device memory that Spillway leaves to the driver: managed memory, arrays, graphs that
// allocate, memory of other interfaces. What they take, they take of the device. Fake driver.
#include <algorithm>

#include "world.h"

namespace fake_cuda {
namespace {

std::uint64_t whole(std::uint64_t bytes) {
  return (bytes + kGranularityBytes - 1) / kGranularityBytes * kGranularityBytes;
}

// Memory without an address, under a handle of its kind.
template <typename Handle>
CuResult make_opaque(World& w, std::uint64_t bytes, Handle* made) {
  std::uint64_t memory = 0;
  const CuResult result = w.memory->create(
      whole(bytes), false, w.report.counters.handle_bytes + w.free_device_bytes(), false, &memory);
  if (result == CuResult::kSuccess) {
    *made = w.new_handle<Handle>();
    w.opaque.emplace(*made, memory);
  }
  return result;
}

CuResult end_opaque(World& w, const char* call, const void* handle) {
  const auto found = w.opaque.extract(handle);
  if (found.empty()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "{}: {} was not made", call, handle);
    return CuResult::kInvalidHandle;
  }
  return w.memory->release(found.mapped());
}

constexpr std::uint64_t kElementBytes = 4;  // formats are not told apart

}  // namespace

// On the device from the beginning, which the real one's is when it is used there.
CuResult cuMemAllocManaged(CuAddress* address, std::size_t bytes, unsigned) {
  return cuMemAlloc_v2(address, bytes);
}

CuResult cuArrayCreate_v2(CuArray* array, const CuArrayShape* shape) {
  return call("cuArrayCreate_v2", Needs::kContext, text("{}", shape->width),
              [&](World& w, Caller&) {
                return make_opaque(w,
                                   shape->width * std::max<std::uint64_t>(shape->height, 1) *
                                       shape->channels * kElementBytes,
                                   array);
              });
}

CuResult cuArrayDestroy(CuArray array) {
  return call("cuArrayDestroy", Needs::kContext, text(""),
              [&](World& w, Caller&) { return end_opaque(w, "cuArrayDestroy", array); });
}

CuResult cuMipmappedArrayCreate(CuMipmaps* mipmaps, const CuArrayShape3d* shape, unsigned) {
  return call("cuMipmappedArrayCreate", Needs::kContext, text("{}", shape->width),
              [&](World& w, Caller&) {
                return make_opaque(w,
                                   2 * shape->width * std::max<std::uint64_t>(shape->height, 1) *
                                       shape->channels * kElementBytes,
                                   mipmaps);
              });
}

CuResult cuMipmappedArrayDestroy(CuMipmaps mipmaps) {
  return call("cuMipmappedArrayDestroy", Needs::kContext, text(""),
              [&](World& w, Caller&) { return end_opaque(w, "cuMipmappedArrayDestroy", mipmaps); });
}

// The node itself does nothing: its memory is there from now on.
CuResult cuGraphAddMemAllocNode(CuGraphNode* node, CuGraph, const CuGraphNode*, std::size_t,
                                CuMemAllocNode* parameters) {
  const CuResult result = cuMemAlloc_v2(&parameters->address, parameters->bytes);
  if (result == CuResult::kSuccess) {
    const std::lock_guard lock(world().mutex);
    *node = world().new_handle<CuGraphNode>();
  }
  return result;
}

CuResult cuImportExternalMemory(CuExternalMemory* memory, const CuExternalMemoryHandle* handle) {
  return call("cuImportExternalMemory", Needs::kContext, text("{} B", handle->bytes),
              [&](World& w, Caller&) { return make_opaque(w, handle->bytes, memory); });
}

CuResult cuDestroyExternalMemory(CuExternalMemory memory) {
  return call("cuDestroyExternalMemory", Needs::kContext, text(""),
              [&](World& w, Caller&) { return end_opaque(w, "cuDestroyExternalMemory", memory); });
}

}  // namespace fake_cuda
