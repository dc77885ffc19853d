// Calls that programs make, besides those that Spillway makes as well: memory of pools, copies that
// wait, questions about addresses. Fake driver.
#include "world.h"

namespace fake_cuda {
namespace {

// There is one pool, and what it gives is plain memory.
CuMemPool the_pool() {
  static int pool = 0;
  return reinterpret_cast<CuMemPool>(&pool);
}

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

CuResult cuDeviceGetDefaultMemPool(CuMemPool* pool, CuDevice) {
  *pool = the_pool();
  return CuResult::kSuccess;
}

CuResult cuMemAllocAsync(CuAddress* address, std::size_t bytes, CuStream) {
  return call("cuMemAllocAsync", Needs::kContext, text("{} B", bytes),
              [&](World& w, Caller&) { return allocate(w, address, bytes); });
}

// What is freed on a captured stream is the graph's, which uses it every time that it runs: here it
// stays until the next reset.
CuResult cuMemFreeAsync(CuAddress address, CuStream stream) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  const CuResult result = cuStreamIsCapturing(stream, &status);
  if (result != CuResult::kSuccess) {
    return result;
  }
  return status == CuCaptureStatus::kActive
             ? CuResult::kSuccess
             : call("cuMemFreeAsync", Needs::kContext, text("{:#x}", address),
                    [&](World& w, Caller& caller) { return free(w, caller, address, true); });
}

CuResult cuMemPoolGetAttribute(CuMemPool, CuPoolAttribute, void* value) {
  *static_cast<std::uint64_t*>(value) = 0;
  return CuResult::kSuccess;
}

CuResult cuMemPoolSetAttribute(CuMemPool, CuPoolAttribute, void*) { return CuResult::kSuccess; }

CuResult cuMemPoolTrimTo(CuMemPool, std::size_t) { return CuResult::kSuccess; }

CuResult cuMemPoolSetAccess(CuMemPool, const CuAccessDescription*, std::size_t) {
  return CuResult::kSuccess;
}

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
