// Ways to device memory that the driver serves itself: each is passed on, and what it took is
// counted. Layer: interpose, cuda.
#include <algorithm>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/driver_memory.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {
namespace {

// Calls with what they make; nothing is counted of what they make for the driver or for us.
template <typename Call, typename Made>
CuResult make(const void* caller, const char* name, DriverMemory kind, Bytes bytes,
              const Call& call, const Made& made) {
  ProgramCall here(CallKind::kAllocation);
  const CuResult result = here.driver(call);
  if (!here.inner() && result == CuResult::kSuccess && bytes > 0) {
    driver_gave(name, kind, made(), bytes, caller);
  }
  return result;
}

template <typename Call>
CuResult give_back(DriverMemory kind, std::uint64_t name, const Call& call) {
  ProgramCall here(CallKind::kFree);
  const CuResult result = here.driver(call);
  if (!here.inner() && result == CuResult::kSuccess) {
    driver_has_back(kind, name);
  }
  return result;
}

template <typename Handle>
std::uint64_t number_of(Handle* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

Bytes element_bytes(unsigned format, unsigned channels) {
  constexpr unsigned kByte = 1;
  constexpr unsigned kSignedByte = 8;
  constexpr unsigned kWord = 3;
  constexpr unsigned kSignedWord = 0xa;
  constexpr unsigned kFloat = 0x20;
  const bool byte = format == kByte || format == kSignedByte;
  const bool word = format == kWord || format == kSignedWord || format == kFloat;
  // Compressed and other rare ones are near two.
  const Bytes channel_bytes = byte ? 1 : word ? 4 : 2;
  return channel_bytes * std::max(channels, 1U);
}

Bytes array_bytes(const CuArrayShape3d& shape) {
  constexpr unsigned kNoMemory = 0x40 | 0x80;  // sparse, and those that are mapped later
  return (shape.flags & kNoMemory) != 0
             ? 0
             : std::max<std::size_t>(shape.width, 1) * std::max<std::size_t>(shape.height, 1) *
                   std::max<std::size_t>(shape.depth, 1) *
                   element_bytes(shape.format, shape.channels);
}

// Each level is half as large in every direction as the one before.
Bytes mipmaps_bytes(CuArrayShape3d shape, unsigned levels) {
  Bytes sum = 0;
  for (unsigned level = 0; level < levels; ++level) {
    sum += array_bytes(shape);
    shape.width /= 2;
    shape.height /= 2;
    shape.depth /= 2;
  }
  return sum;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuMemAllocManaged(CuAddress* address, std::size_t bytes, unsigned flags) {
  return cuda::make(
      __builtin_return_address(0), "cuMemAllocManaged", DriverMemory::kAddress, bytes,
      [&] { return cuda::real().cuMemAllocManaged(address, bytes, flags); },
      [&] { return *address; });
}

CuResult cuArrayCreate_v2(CuArray* array, const CuArrayShape* shape) {
  const spillway::Bytes bytes = shape == nullptr ? 0
                                                 : cuda::array_bytes({.width = shape->width,
                                                                      .height = shape->height,
                                                                      .depth = 0,
                                                                      .format = shape->format,
                                                                      .channels = shape->channels,
                                                                      .flags = 0});
  return cuda::make(
      __builtin_return_address(0), "cuArrayCreate", DriverMemory::kArray, bytes,
      [&] { return cuda::real().cuArrayCreate_v2(array, shape); },
      [&] { return cuda::number_of(*array); });
}

CuResult cuArray3DCreate_v2(CuArray* array, const CuArrayShape3d* shape) {
  return cuda::make(
      __builtin_return_address(0), "cuArrayCreate", DriverMemory::kArray,
      shape == nullptr ? 0 : cuda::array_bytes(*shape),
      [&] { return cuda::real().cuArray3DCreate_v2(array, shape); },
      [&] { return cuda::number_of(*array); });
}

CuResult cuArrayDestroy(CuArray array) {
  return cuda::give_back(DriverMemory::kArray, cuda::number_of(array),
                         [&] { return cuda::real().cuArrayDestroy(array); });
}

CuResult cuMipmappedArrayCreate(CuMipmaps* mipmaps, const CuArrayShape3d* shape, unsigned levels) {
  return cuda::make(
      __builtin_return_address(0), "cuMipmappedArrayCreate", DriverMemory::kMipmaps,
      shape == nullptr ? 0 : cuda::mipmaps_bytes(*shape, levels),
      [&] { return cuda::real().cuMipmappedArrayCreate(mipmaps, shape, levels); },
      [&] { return cuda::number_of(*mipmaps); });
}

CuResult cuMipmappedArrayDestroy(CuMipmaps mipmaps) {
  return cuda::give_back(DriverMemory::kMipmaps, cuda::number_of(mipmaps),
                         [&] { return cuda::real().cuMipmappedArrayDestroy(mipmaps); });
}

// It is there whenever the graph runs, and until it is freed.
CuResult cuGraphAddMemAllocNode(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                                std::size_t count, CuMemAllocNode* parameters) {
  return cuda::make(
      __builtin_return_address(0), "cuGraphAddMemAllocNode", DriverMemory::kAddress,
      parameters == nullptr ? 0 : parameters->bytes,
      [&] {
        return cuda::real().cuGraphAddMemAllocNode(node, graph, dependencies, count, parameters);
      },
      [&] { return parameters->address; });
}

CuResult cuImportExternalMemory(CuExternalMemory* memory, const CuExternalMemoryHandle* handle) {
  return cuda::make(
      __builtin_return_address(0), "cuImportExternalMemory", DriverMemory::kImport,
      handle == nullptr ? 0 : handle->bytes,
      [&] { return cuda::real().cuImportExternalMemory(memory, handle); },
      [&] { return cuda::number_of(*memory); });
}

CuResult cuDestroyExternalMemory(CuExternalMemory memory) {
  return cuda::give_back(DriverMemory::kImport, cuda::number_of(memory),
                         [&] { return cuda::real().cuDestroyExternalMemory(memory); });
}

}  // extern "C"
