// Calls about device memory and pinned host memory. Fake driver.
#include <algorithm>
#include <chrono>
#include <thread>

#include "world.h"

namespace fake_cuda {
namespace {

constexpr unsigned kFabric = 8;

CuResult create(World& w, std::uint64_t bytes, bool on_host, std::uint64_t* handle) {
  if (on_host ? w.happens(Chance::kHostMemory, w.config.host_memory_fails)
              : w.happens(Chance::kCreate, w.config.create_fails)) {
    return CuResult::kOutOfMemory;
  }
  FakeCudaCounters& counters = w.report.counters;
  const std::uint64_t limit_bytes = counters.handle_bytes + w.free_device_bytes();
  const CuResult result =
      w.memory->create(bytes, on_host, limit_bytes, w.config.poison_handles != 0, handle);
  counters.peak_device_bytes =
      std::max(counters.peak_device_bytes,
               counters.handle_bytes + counters.contexts * w.config.context_bytes);
  return result;
}

void take_time(Caller& caller, std::int64_t time_ns) {
  if (time_ns > 0) {
    caller.lock.unlock();
    std::this_thread::sleep_for(std::chrono::nanoseconds(time_ns));
    caller.lock.lock();
  }
}

// Giving access waits for copies out of the device, handle by handle (docs/gpu.md section 5).
void take_access_time(World& w, Caller& caller, std::uint64_t handles) {
  for (std::uint64_t i = 0; i < handles; ++i) {
    const auto out = std::find_if(w.running.begin(), w.running.end(), [](const Running& it) {
      return it.op->kind == OpKind::kCopyOut;
    });
    // It runs when what copies out has nothing to do, or has had its slice of time.
    std::ptrdiff_t given = 0;
    for (const std::shared_ptr<Stream>& stream : w.alive) {
      given += std::count_if(stream->queue.begin(), stream->queue.end(),
                             [](const Op& op) { return op.kind == OpKind::kCopyOut; });
    }
    std::int64_t time_ns = w.config.access_ns;
    if (out != w.running.end() && w.config.access_waits_ns > 0) {
      time_ns += given > 1 ? w.config.access_waits_ns
                           : std::clamp<std::int64_t>(out->until_ns - now_ns(), 0,
                                                      w.config.access_waits_ns);
    } else if (out != w.running.end()) {
      time_ns = w.config.access_beside_copy_out_ns;
    }
    take_time(caller, time_ns);
  }
  const std::int64_t stands_ns = now_ns();
  ++w.access_stands;
  while (w.access_passes == 0) {
    if (now_ns() - stands_ns > w.config.stuck_after_ns) {
      w.report.violation(FAKE_CUDA_STUCK, "cuMemSetAccess: stands for {} ms, and nobody lets it go",
                         w.config.stuck_after_ns / 1'000'000);
      break;
    }
    w.progress.wait_for(caller.lock, std::chrono::milliseconds(1));
  }
  --w.access_stands;
  if (w.access_passes > 0) {
    --w.access_passes;
  }
}

CuResult give_back_host(World& w, Caller& caller, void* pointer, bool allocated) {
  CuResult result = w.unsafe_beside_captures();
  if (result == CuResult::kSuccess) {
    result = w.host->known(caller.call, pointer, allocated);
  }
  if (result == CuResult::kSuccess) {
    result = w.drain(caller, *caller.context, true);
  }
  // Somebody else may have been quicker.
  if (result == CuResult::kSuccess) {
    result = w.host->known(caller.call, pointer, allocated);
  }
  if (result == CuResult::kSuccess) {
    w.host->forget(pointer);
  }
  return result;
}

}  // namespace

CuResult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return call("cuMemGetInfo_v2", Needs::kContext, text(""), [&](World& w, Caller&) {
    *free_bytes = w.free_device_bytes();
    *total_bytes = w.config.device_bytes;
    return CuResult::kSuccess;
  });
}

CuResult cuMemGetAllocationGranularity(std::size_t* bytes, const CuAllocationProperties* properties,
                                       CuGranularity) {
  return call("cuMemGetAllocationGranularity", Needs::kInit, text(""), [&](World&, Caller&) {
    *bytes = kGranularityBytes;
    return properties->type == CuAllocationType::kPinned ? CuResult::kSuccess
                                                         : CuResult::kInvalidValue;
  });
}

CuResult cuMemAddressReserve(CuAddress* address, std::size_t bytes, std::size_t alignment,
                             CuAddress wish, unsigned long long flags) {
  return call("cuMemAddressReserve", Needs::kContext,
              text("{} B, {}, {:#x}, {}", bytes, alignment, wish, flags), [&](World& w, Caller&) {
                return w.memory->reserve(bytes, alignment, wish, address);
              });
}

CuResult cuMemAddressFree(CuAddress address, std::size_t bytes) {
  return call("cuMemAddressFree", Needs::kContext, text("{:#x}, {} B", address, bytes),
              [&](World& w, Caller&) { return w.memory->free_reservation(address, bytes); });
}

CuResult cuMemCreate(CuMemHandle* handle, std::size_t bytes,
                     const CuAllocationProperties* properties, unsigned long long flags) {
  const CuLocation at = properties->location;
  return call("cuMemCreate", Needs::kContext,
              text("{} B, location {} {}", bytes, static_cast<unsigned>(at.type), at.id),
              [&](World& w, Caller& caller) {
                take_time(caller, w.config.create_ns);
                const bool on_host = at.type == CuLocationType::kHostNuma;
                // Handles for other machines want a service that is not there.
                if ((static_cast<unsigned>(properties->exported_as) & kFabric) != 0) {
                  return CuResult::kNotPermitted;
                }
                if (properties->type != CuAllocationType::kPinned || flags != 0 || at.id != 0 ||
                    (!on_host && at.type != CuLocationType::kDevice)) {
                  return CuResult::kInvalidValue;
                }
                const CuResult result = create(w, bytes, on_host, handle);
                if (result == CuResult::kSuccess && properties->flags.rdma_capable != 0) {
                  w.memory->make_rdma_capable(*handle);
                }
                if (result == CuResult::kSuccess) {
                  w.handle_properties[*handle] = *properties;
                }
                if (result == CuResult::kSuccess &&
                    properties->exported_as == CuHandleType::kFileDescriptor) {
                  w.memory->make_exportable(*handle);
                }
                return result;
              });
}

CuResult cuMemRelease(CuMemHandle handle) {
  return call("cuMemRelease", Needs::kContext, text("{}", handle), [&](World& w, Caller& caller) {
    take_time(caller, w.config.release_ns);
    return w.memory->release(handle);
  });
}

CuResult cuMemRetainAllocationHandle(CuMemHandle* handle, void* address) {
  return call("cuMemRetainAllocationHandle", Needs::kContext, text("{}", address),
              [&](World& w, Caller&) {
                *handle = w.memory->retain(reinterpret_cast<CuAddress>(address));
                return *handle == 0 ? CuResult::kInvalidValue : CuResult::kSuccess;
              });
}

CuResult cuMemGetAllocationPropertiesFromHandle(CuAllocationProperties* properties,
                                                CuMemHandle handle) {
  return call("cuMemGetAllocationPropertiesFromHandle", Needs::kInit, text("{}", handle),
              [&](World& w, Caller&) {
                if (!w.memory->has(handle)) {
                  return CuResult::kInvalidValue;
                }
                *properties = w.handle_properties.at(handle);
                return CuResult::kSuccess;
              });
}

CuResult cuMemGetAccess(unsigned long long* flags, const CuLocation* location, CuAddress address) {
  return call("cuMemGetAccess", Needs::kInit, text("{:#x}", address), [&](World& w, Caller&) {
    const std::optional<CuAccess> access = w.memory->access_of(address);
    if (!access || location->type != CuLocationType::kDevice || location->id != 0) {
      return CuResult::kInvalidValue;
    }
    *flags = static_cast<unsigned long long>(*access);
    return CuResult::kSuccess;
  });
}

CuResult cuMemMap(CuAddress address, std::size_t bytes, std::size_t offset, CuMemHandle handle,
                  unsigned long long flags) {
  return call("cuMemMap", Needs::kContext,
              text("{:#x}, {} B, {}, {}", address, bytes, offset, handle), [&](World& w, Caller&) {
                return flags != 0 ? CuResult::kInvalidValue
                                  : w.memory->map(address, bytes, offset, handle);
              });
}

CuResult cuMemUnmap(CuAddress address, std::size_t bytes) {
  return call("cuMemUnmap", Needs::kContext, text("{:#x}, {} B", address, bytes),
              [&](World& w, Caller& caller) {
                const Range range{address, bytes, true};
                take_time(caller, w.config.unmap_ns);
                w.wait_until_unused(caller, range);
                const CuResult result = w.memory->whole_mappings("cuMemUnmap", range);
                if (result == CuResult::kSuccess) {
                  w.memory->unmap(range);
                }
                return result;
              });
}

CuResult cuMemSetAccess(CuAddress address, std::size_t bytes,
                        const CuAccessDescription* descriptions, std::size_t count) {
  return call(
      "cuMemSetAccess", Needs::kContext,
      text("{:#x}, {} B, {}", address, bytes,
           count > 0 ? static_cast<unsigned>(descriptions->access) : 0),
      [&](World& w, Caller& caller) {
        // The device itself comes first; any others are only counted.
        if (count == 0 || descriptions->location.id != 0 ||
            std::any_of(descriptions, descriptions + count, [](const CuAccessDescription& it) {
              return it.location.type != CuLocationType::kDevice;
            })) {
          return CuResult::kInvalidValue;
        }
        w.report.counters.peer_access_changes += count - 1;
        const Range range{address, bytes, true};
        if (descriptions->access != CuAccess::kReadWrite) {
          w.wait_until_unused(caller, range);
        }
        const CuResult result = w.memory->whole_mappings("cuMemSetAccess", range);
        if (result == CuResult::kSuccess && w.happens(Chance::kAccess, w.config.access_fails)) {
          return CuResult::kOutOfMemory;
        }
        if (result == CuResult::kSuccess) {
          take_access_time(w, caller, w.memory->set_access(range, descriptions->access));
        }
        return result;
      });
}

CuResult allocate(World& w, CuAddress* address, std::size_t bytes) {
  const std::uint64_t whole =
      (bytes + kGranularityBytes - 1) / kGranularityBytes * kGranularityBytes;
  std::uint64_t handle = 0;
  CuResult result = bytes == 0 ? CuResult::kInvalidValue : create(w, whole, false, &handle);
  if (result != CuResult::kSuccess) {
    return result;
  }
  result = w.memory->reserve(whole, 0, 0, address);
  if (result == CuResult::kSuccess) {
    result = w.memory->map(*address, whole, 0, handle);
    w.memory->set_access({*address, whole, true}, CuAccess::kReadWrite);
    w.allocated.emplace(*address, whole);
  }
  w.memory->release(handle);  // it lives as long as it is mapped
  return result;
}

CuResult free(World& w, Caller& caller, CuAddress address, bool waits) {
  const auto allocation = w.allocated.extract(address);
  if (allocation.empty()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "cuMemFree: {:#x} was not allocated", address);
    return CuResult::kInvalidValue;
  }
  const CuResult result = waits ? w.drain(caller, *caller.context, true) : CuResult::kSuccess;
  w.allocated.emplace(address, allocation.mapped());
  if (result == CuResult::kSuccess) {
    w.forget_memory(address);
  }
  return result;
}

void World::forget_memory(std::uint64_t address) {
  const std::uint64_t bytes = allocated.at(address);
  allocated.erase(address);
  owners.erase(address);
  memory->unmap({address, bytes, true});
  memory->free_reservation(address, bytes);
}

void World::forget_memory_of(const Context* context) {
  std::vector<std::uint64_t> its;
  for (const auto& [address, bytes] : allocated) {
    const auto owner = owners.find(address);
    if ((owner == owners.end() ? nullptr : owner->second) == context) {
      its.push_back(address);
    }
  }
  std::for_each(its.begin(), its.end(), [this](std::uint64_t it) { forget_memory(it); });
}

CuResult cuMemAlloc_v2(CuAddress* address, std::size_t bytes) {
  return call("cuMemAlloc_v2", Needs::kContext, text("{} B", bytes), [&](World& w, Caller& caller) {
    CuResult result = w.unsafe_beside_captures();
    if (result == CuResult::kSuccess) {
      result = allocate(w, address, bytes);
    }
    if (result == CuResult::kSuccess) {
      w.owners[*address] = caller.context.get();
    }
    return result;
  });
}

CuResult cuMemFree_v2(CuAddress address) {
  return call(
      "cuMemFree_v2", Needs::kContext, text("{:#x}", address), [&](World& w, Caller& caller) {
        const CuResult refused = w.unsafe_beside_captures();
        // A pool's memory is taken for unused.
        return refused == CuResult::kSuccess ? free(w, caller, address, w.owners.contains(address))
                                             : refused;
      });
}

CuResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return call("cuMemHostAlloc", Needs::kContext, text("{} B, {}", bytes, flags),
              [&](World& w, Caller& caller) {
                const CuResult refused = w.unsafe_beside_captures();
                if (refused != CuResult::kSuccess) {
                  return refused;
                }
                return w.happens(Chance::kHostMemory, w.config.host_memory_fails)
                           ? CuResult::kOutOfMemory
                           : w.host->allocate(bytes, caller.context.get(), memory);
              });
}

CuResult cuMemFreeHost(void* memory) {
  return call("cuMemFreeHost", Needs::kContext, text("{}", memory),
              [&](World& w, Caller& caller) { return give_back_host(w, caller, memory, true); });
}

CuResult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  return call("cuMemHostRegister_v2", Needs::kContext, text("{}, {} B, {}", memory, bytes, flags),
              [&](World& w, Caller& caller) {
                const CuResult refused = w.unsafe_beside_captures();
                if (refused != CuResult::kSuccess) {
                  return refused;
                }
                return w.happens(Chance::kHostMemory, w.config.host_memory_fails)
                           ? CuResult::kOutOfMemory
                           : w.host->pin(memory, bytes, caller.context.get());
              });
}

CuResult cuMemHostUnregister(void* memory) {
  return call("cuMemHostUnregister", Needs::kContext, text("{}", memory),
              [&](World& w, Caller& caller) { return give_back_host(w, caller, memory, false); });
}

CuResult cuMemHostGetDevicePointer_v2(CuAddress* address, void* memory, unsigned flags) {
  return call("cuMemHostGetDevicePointer_v2", Needs::kContext, text("{}, {}", memory, flags),
              [&](World& w, Caller&) {
                *address = reinterpret_cast<CuAddress>(memory);
                return w.host->pinned(*address, 1) ? CuResult::kSuccess : CuResult::kInvalidValue;
              });
}

}  // namespace fake_cuda
