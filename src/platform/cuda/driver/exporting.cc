// See exporting.h.
#include "platform/cuda/driver/exporting.h"

#include "base/units.h"
#include "platform/common/process/descriptor.h"

namespace spillway::cuda {

CuResult descriptor_of(const Driver& driver, CuMemHandle handle, int& descriptor) {
  return driver.memory_export(&descriptor, handle, CuHandleType::kFileDescriptor, 0);
}

bool makes_descriptors(const Driver& driver, int device) {
  CuDevice number = 0;
  int can = 0;
  if (driver.device_get(&number, device) != CuResult::kSuccess ||
      driver.device_attribute(&can, CuAttribute::kHandleTypeFileDescriptor, number) !=
          CuResult::kSuccess ||
      can == 0) {
    return false;
  }
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.exported_as = CuHandleType::kFileDescriptor;
  properties.location = {.type = CuLocationType::kDevice, .id = device};
  CuMemHandle handle = 0;
  if (driver.memory_create(&handle, kBlockBytes, &properties, 0) != CuResult::kSuccess) {
    return false;
  }
  int descriptor = -1;
  const bool made = descriptor_of(driver, handle, descriptor) == CuResult::kSuccess;
  const Descriptor closed(descriptor);
  return driver.memory_release(handle) == CuResult::kSuccess && made;
}

}  // namespace spillway::cuda
