// Memory for other processes: by descriptors, and the driver's own handles of what cuMemAlloc gave,
// which are known by their mark and can be opened by nobody. Fake driver.
#include <algorithm>
#include <cstring>

#include "world.h"

namespace fake_cuda {
namespace {

constexpr unsigned char kMark = 0xd7;

}  // namespace

CuResult cuMemExportToShareableHandle(void* shareable, CuMemHandle handle, CuHandleType type,
                                      unsigned long long flags) {
  return call("cuMemExportToShareableHandle", Needs::kContext,
              text("{}, {}", handle, static_cast<unsigned>(type)), [&](World& w, Caller&) {
                return flags != 0 || type != CuHandleType::kFileDescriptor
                           ? CuResult::kInvalidValue
                           : w.memory->export_handle(handle, static_cast<int*>(shareable));
              });
}

CuResult cuMemImportFromShareableHandle(CuMemHandle* handle, void* shareable, CuHandleType type) {
  const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  return call("cuMemImportFromShareableHandle", Needs::kInit,
              text("{}, {}", descriptor, static_cast<unsigned>(type)), [&](World& w, Caller&) {
                return type != CuHandleType::kFileDescriptor
                           ? CuResult::kInvalidValue
                           : w.memory->import_handle(descriptor, handle);
              });
}

// Of the space it knows nothing that has one, as of all that is mapped.
CuResult cuIpcGetMemHandle(CuIpcHandle* handle, CuAddress address) {
  return call("cuIpcGetMemHandle", Needs::kContext, text("{:#x}", address), [&](World& w, Caller&) {
    const auto after = w.allocated.upper_bound(address);
    if (after == w.allocated.begin() ||
        address - std::prev(after)->first >= std::prev(after)->second) {
      return CuResult::kInvalidValue;
    }
    std::fill(std::begin(handle->bytes), std::end(handle->bytes), kMark);
    std::memcpy(handle->bytes, &std::prev(after)->first, sizeof(CuAddress));
    return CuResult::kSuccess;
  });
}

// Where it has been made, as the driver does.
CuResult cuIpcOpenMemHandle_v2(CuAddress*, CuIpcHandle handle, unsigned) {
  return call("cuIpcOpenMemHandle_v2", Needs::kContext, text(""), [&](World&, Caller&) {
    return handle.bytes[sizeof handle.bytes - 1] == kMark ? CuResult::kInvalidContext
                                                          : CuResult::kInvalidHandle;
  });
}

CuResult cuIpcCloseMemHandle(CuAddress address) {
  return call("cuIpcCloseMemHandle", Needs::kContext, text("{:#x}", address),
              [&](World&, Caller&) { return CuResult::kInvalidValue; });
}

}  // namespace fake_cuda
