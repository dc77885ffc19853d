// How the scenarios of memory that a program maps itself do so, each call expected to succeed. Test
// program.
#pragma once

#include <vector>

#include "device.h"

namespace spillway::cuda::test {

inline constexpr std::uint64_t kMiB = 1 << 20;
inline constexpr std::uint64_t kPiece = 2 * kMiB;

inline constexpr CuAccessDescription kOwn{.location = {.type = CuLocationType::kDevice, .id = 0},
                                          .access = CuAccess::kReadWrite};

inline CuAllocationProperties plain() {
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = kOwn.location;
  return properties;
}

inline CuAddress reserve(const Device& device, std::uint64_t bytes) {
  CuAddress address = 0;
  device.expect(device.calls.cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  return address;
}

inline CuMemHandle create(const Device& device, std::uint64_t bytes,
                          const CuAllocationProperties& properties = plain()) {
  CuMemHandle handle = 0;
  device.expect(device.calls.cuMemCreate(&handle, bytes, &properties, 0), "cuMemCreate");
  return handle;
}

inline void map(const Device& device, CuAddress address, std::uint64_t bytes, CuMemHandle handle) {
  device.expect(device.calls.cuMemMap(address, bytes, 0, handle, 0), "cuMemMap");
  device.expect(device.calls.cuMemSetAccess(address, bytes, &kOwn, 1), "cuMemSetAccess");
}

inline void release(const Device& device, CuMemHandle handle) {
  device.expect(device.calls.cuMemRelease(handle), "cuMemRelease");
}

inline void unmap(const Device& device, CuAddress address, std::uint64_t bytes) {
  device.expect(device.calls.cuMemUnmap(address, bytes), "cuMemUnmap");
}

inline void free_reserved(const Device& device, CuAddress address, std::uint64_t bytes) {
  device.expect(device.calls.cuMemAddressFree(address, bytes), "cuMemAddressFree");
}

// The handle goes at once: the mapping keeps the memory.
inline void map_piece(const Device& device, CuAddress address, std::uint64_t bytes = kPiece) {
  const CuMemHandle handle = create(device, bytes);
  map(device, address, bytes, handle);
  release(device, handle);
}

inline Buffer buffer_at(CuAddress address, std::uint64_t bytes) {
  return {.address = address, .words = bytes / 8, .seed = 0};
}

// More than the budget; whatever was used before is elsewhere when they have been used.
inline void press(const Device& device, CuStream stream) {
  std::vector<Buffer> all;
  for (std::uint64_t i = 0; i < 10; ++i) {
    all.push_back(device.allocate(4 * kMiB, stream));
    device.fill(all.back(), 10 + i, stream);
  }
  for (Buffer& other : all) {
    device.check(other, stream);
    device.free(other, stream);
  }
}

}  // namespace spillway::cuda::test
