// Memory pools. What they give is plain memory, and what they say of it nothing: that is
// Spillway's. Fake driver.
#include "world.h"

namespace fake_cuda {
namespace {

// Also what the device's own pool is called.
CuMemPool default_pool(const World& w) {
  static int pool = 0;
  return w.default_pool_handle != nullptr ? w.default_pool_handle
                                          : reinterpret_cast<CuMemPool>(&pool);
}

// nullptr: there is none.
MemoryPool* find_pool(World& w, const char* name, CuMemPool handle) {
  if (handle == default_pool(w)) {
    return &w.default_pool;
  }
  const auto found = w.pools.find(handle);
  if (found == w.pools.end()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "{}: there is no pool {}", name, shown(handle));
    return nullptr;
  }
  return &found->second;
}

template <typename Work>
CuResult with_pool(const char* name, CuMemPool handle, const Work& work) {
  return call(name, Needs::kInit, text("{}", shown(handle)), [&](World& w, Caller&) {
    MemoryPool* const pool = find_pool(w, name, handle);
    return pool == nullptr ? CuResult::kInvalidValue : work(w, *pool);
  });
}

}  // namespace

CuResult cuDeviceGetDefaultMemPool(CuMemPool* pool, CuDevice) {
  return call("cuDeviceGetDefaultMemPool", Needs::kInit, text(""), [&](World& w, Caller&) {
    *pool = default_pool(w);
    return CuResult::kSuccess;
  });
}

CuResult cuDeviceGetMemPool(CuMemPool* pool, CuDevice) {
  return call("cuDeviceGetMemPool", Needs::kInit, text(""), [&](World& w, Caller&) {
    *pool = w.current_pool != nullptr ? w.current_pool : default_pool(w);
    return CuResult::kSuccess;
  });
}

CuResult cuDeviceSetMemPool(CuDevice, CuMemPool handle) {
  return with_pool("cuDeviceSetMemPool", handle, [&](World& w, const MemoryPool& pool) {
    if (pool.location.type != CuLocationType::kDevice) {
      return CuResult::kInvalidValue;
    }
    w.current_pool = handle;
    return CuResult::kSuccess;
  });
}

CuResult cuMemPoolCreate(CuMemPool* pool, const CuMemPoolProperties* properties) {
  return call("cuMemPoolCreate", Needs::kInit, text("{} B", properties->most_bytes),
              [&](World& w, Caller&) {
                *pool = w.new_handle<CuMemPool>();
                w.pools[*pool].location = properties->location;
                return CuResult::kSuccess;
              });
}

CuResult cuMemPoolDestroy(CuMemPool handle) {
  return with_pool("cuMemPoolDestroy", handle, [&](World& w, const MemoryPool&) {
    if (w.pools.erase(handle) == 0) {
      return CuResult::kInvalidValue;  // the device's own
    }
    if (w.current_pool == handle) {
      w.current_pool = nullptr;
    }
    return CuResult::kSuccess;
  });
}

CuResult cuMemAllocAsync(CuAddress* address, std::size_t bytes, CuStream) {
  return call("cuMemAllocAsync", Needs::kContext, text("{} B", bytes),
              [&](World& w, Caller&) { return allocate(w, address, bytes); });
}

CuResult cuMemAllocFromPoolAsync(CuAddress* address, std::size_t bytes, CuMemPool pool, CuStream) {
  return call("cuMemAllocFromPoolAsync", Needs::kContext, text("{} B, {}", bytes, shown(pool)),
              [&](World& w, Caller&) {
                return find_pool(w, "cuMemAllocFromPoolAsync", pool) == nullptr
                           ? CuResult::kInvalidValue
                           : allocate(w, address, bytes);
              });
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

CuResult cuMemPoolGetAttribute(CuMemPool handle, CuPoolAttribute attribute, void* value) {
  return with_pool("cuMemPoolGetAttribute", handle, [&](World&, const MemoryPool& pool) {
    *static_cast<std::uint64_t*>(value) =
        attribute == CuPoolAttribute::kReleaseThreshold ? pool.release_threshold_bytes : 0;
    return CuResult::kSuccess;
  });
}

// Highs can be reset to 0, and to nothing else.
CuResult cuMemPoolSetAttribute(CuMemPool handle, CuPoolAttribute attribute, void* value) {
  return with_pool("cuMemPoolSetAttribute", handle, [&](World&, MemoryPool& pool) {
    const std::uint64_t bytes = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case CuPoolAttribute::kReleaseThreshold:
        pool.release_threshold_bytes = bytes;
        return CuResult::kSuccess;
      case CuPoolAttribute::kReservedHigh:
      case CuPoolAttribute::kUsedHigh:
        return bytes == 0 ? CuResult::kSuccess : CuResult::kInvalidValue;
      default:
        return CuResult::kInvalidValue;
    }
  });
}

CuResult cuMemPoolTrimTo(CuMemPool handle, std::size_t) {
  return with_pool("cuMemPoolTrimTo", handle,
                   [](World&, const MemoryPool&) { return CuResult::kSuccess; });
}

CuResult cuMemPoolSetAccess(CuMemPool handle, const CuAccessDescription*, std::size_t) {
  return with_pool("cuMemPoolSetAccess", handle,
                   [](World&, const MemoryPool&) { return CuResult::kSuccess; });
}

}  // namespace fake_cuda
