// Calls that programs make, besides those that Spillway makes as well: copies that wait, questions
// about addresses. Fake driver.
#include "world.h"

namespace fake_cuda {
namespace {

CuResult name_of(const void* handle, const char** name) {
  return call("cuFuncGetName", Needs::kInit, text("{}", handle), [&](World& w, Caller&) {
    const auto found = w.kernel_handles.find(handle);
    if (found == w.kernel_handles.end()) {
      return CuResult::kInvalidHandle;
    }
    *name = found->second->name.c_str();
    return CuResult::kSuccess;
  });
}

CuResult attribute(const World& w, CuPointerAttribute what, CuAddress address, void* data) {
  if (!w.memory->problem({address, 1, false}).empty()) {
    return CuResult::kInvalidValue;
  }
  if (what == CuPointerAttribute::kMemoryType) {
    *static_cast<CuMemoryType*>(data) = CuMemoryType::kDevice;
    return CuResult::kSuccess;
  }
  return CuResult::kNotSupported;
}

}  // namespace

CuResult cuMemcpyHtoD_v2(CuAddress to, const void* from, std::size_t bytes) {
  const CuResult result = cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr);
  return result == CuResult::kSuccess ? cuStreamSynchronize(nullptr) : result;
}

CuResult cuMemcpyDtoH_v2(void* to, CuAddress from, std::size_t bytes) {
  const CuResult result = cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr);
  return result == CuResult::kSuccess ? cuStreamSynchronize(nullptr) : result;
}

CuResult cuMemsetD8_v2(CuAddress to, unsigned char value, std::size_t count) {
  return cuMemsetD8Async(to, value, count, nullptr);
}

// As for memory that is not mapped: one is refused, several are answered with zeros.
CuResult cuPointerGetAttribute(void* data, CuPointerAttribute what, CuAddress address) {
  return call("cuPointerGetAttribute", Needs::kInit, text("{:#x}", address),
              [&](World& w, Caller&) { return attribute(w, what, address, data); });
}

CuResult cuPointerGetAttributes(unsigned count, CuPointerAttribute* attributes, void** data,
                                CuAddress address) {
  return call("cuPointerGetAttributes", Needs::kInit, text("{:#x}", address),
              [&](World& w, Caller&) {
                for (unsigned i = 0; i < count; ++i) {
                  (void)attribute(w, attributes[i], address, data[i]);
                }
                return CuResult::kSuccess;
              });
}

CuResult cuMemGetAddressRange_v2(CuAddress* start, std::size_t* bytes, CuAddress address) {
  return call("cuMemGetAddressRange_v2", Needs::kInit, text("{:#x}", address),
              [&](World& w, Caller&) {
                const auto after = w.allocated.upper_bound(address);
                if (after == w.allocated.begin() ||
                    address - std::prev(after)->first >= std::prev(after)->second) {
                  return CuResult::kNotFound;
                }
                *start = std::prev(after)->first;
                *bytes = std::prev(after)->second;
                return CuResult::kSuccess;
              });
}

// Its one flag is for streams that are captured, and refused on others.
CuResult cuEventRecordWithFlags(CuEvent event, CuStream stream, unsigned flags) {
  return flags == 0 ? cuEventRecord(event, stream) : CuResult::kInvalidValue;
}

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CuResult cuFuncGetName(const char** name, CuFunction function) { return name_of(function, name); }

CuResult cuKernelGetName(const char** name, CuKernel kernel) { return name_of(kernel, name); }

}  // namespace fake_cuda
