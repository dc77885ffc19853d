// The device and its contexts: calls, and how a context begins and ends. Fake driver.
#include <algorithm>
#include <cstring>

#include "world.h"

namespace fake_cuda {
namespace {

constexpr int kDevices = 1;

CuResult make_current(World& w, const char* name, CuContext handle, bool push) {
  ThreadState& thread = this_thread();
  if (!push && !thread.current.empty()) {
    thread.current.pop_back();
  }
  if (handle == nullptr) {
    return push ? CuResult::kInvalidContext : CuResult::kSuccess;
  }
  const auto found = w.contexts.find(handle);
  if (found == w.contexts.end()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "{}: there is no context {}", name, shown(handle));
    return CuResult::kInvalidContext;
  }
  thread.current.push_back(found->second);
  return CuResult::kSuccess;
}

int attribute_of(const World& w, CuAttribute attribute) {
  const auto set = w.attributes.find(static_cast<int>(attribute));
  if (set != w.attributes.end()) {
    return set->second;
  }
  switch (attribute) {
    case CuAttribute::kMultiprocessorCount:
      return 132;
    case CuAttribute::kAsyncEngineCount:
      return 3;
    case CuAttribute::kComputeCapabilityMajor:
      return 9;
    case CuAttribute::kRdmaWritesOrdering:
      return 200;  // for all devices
    case CuAttribute::kUnifiedAddressing:
    case CuAttribute::kHostPointerForRegisteredMemory:
    case CuAttribute::kHostRegisterSupported:
    case CuAttribute::kVirtualMemoryManagement:
    case CuAttribute::kHandleTypeFileDescriptor:
    case CuAttribute::kStreamMemoryOperations64:
    case CuAttribute::kHostNumaVirtualMemory:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

std::shared_ptr<Context> World::make_context(bool is_primary, unsigned flags) {
  auto context = std::make_shared<Context>();
  context->handle = new_handle<CuContext>();
  context->primary = is_primary;
  context->flags = flags;
  context->null_stream = make_stream(context, nullptr, true);
  contexts.emplace(context->handle, context);
  FakeCudaCounters& counters = report.counters;
  ++counters.contexts;
  counters.peak_device_bytes = std::max(
      counters.peak_device_bytes, counters.handle_bytes + counters.contexts * config.context_bytes);
  return context;
}

void World::end_context(Context& context) {
  for (const auto& stream : alive) {
    if (stream->context.get() == &context) {
      stream->closing = true;
      stream->wake.notify_all();
      report.counters.streams -= streams.erase(stream->handle);
    }
  }
  report.counters.events -=
      std::erase_if(events, [&](const auto& it) { return it.second->context.get() == &context; });
  forget_memory_of(&context);
  host->forget_those_of(&context);
  context.error = CuResult::kContextIsDestroyed;
  --report.counters.contexts;
  contexts.erase(context.handle);
}

CuResult cuInit(unsigned flags) {
  return call("cuInit", Needs::kNothing, text("{}", flags), [&](World& w, Caller&) {
    w.initialized = true;
    return flags == 0 ? CuResult::kSuccess : CuResult::kInvalidValue;
  });
}

CuResult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", Needs::kNothing, text(""), [&](World& w, Caller&) {
    *version = w.config.driver_version;
    return CuResult::kSuccess;
  });
}

CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  return call("cuDeviceGet", Needs::kInit, text("{}", ordinal), [&](World&, Caller&) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < kDevices ? CuResult::kSuccess : CuResult::kInvalidDevice;
  });
}

CuResult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Needs::kInit, text(""), [&](World&, Caller&) {
    *count = kDevices;
    return CuResult::kSuccess;
  });
}

CuResult cuDeviceGetName(char* name, int bytes, CuDevice device) {
  return call("cuDeviceGetName", Needs::kInit, text("{}", device), [&](World&, Caller&) {
    if (device != 0 || bytes <= 0) {
      return CuResult::kInvalidValue;
    }
    std::strncpy(name, "Fake device", static_cast<std::size_t>(bytes) - 1);
    name[bytes - 1] = '\0';
    return CuResult::kSuccess;
  });
}

CuResult cuDeviceGetUuid_v2(CuUuid* uuid, CuDevice device) {
  return call("cuDeviceGetUuid_v2", Needs::kInit, text("{}", device), [&](World&, Caller&) {
    *uuid = {.bytes = {0xfa, 0xce}};
    return device == 0 ? CuResult::kSuccess : CuResult::kInvalidDevice;
  });
}

CuResult cuDeviceGetAttribute(int* value, CuAttribute attribute, CuDevice device) {
  return call("cuDeviceGetAttribute", Needs::kInit,
              text("{}, {}", static_cast<unsigned>(attribute), device), [&](World& w, Caller&) {
                *value = attribute_of(w, attribute);
                return device == 0 ? CuResult::kSuccess : CuResult::kInvalidDevice;
              });
}

CuResult cuDeviceTotalMem_v2(std::size_t* bytes, CuDevice device) {
  return call("cuDeviceTotalMem_v2", Needs::kInit, text("{}", device), [&](World& w, Caller&) {
    *bytes = w.config.device_bytes;
    return device == 0 ? CuResult::kSuccess : CuResult::kInvalidDevice;
  });
}

CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  return call("cuDevicePrimaryCtxRetain", Needs::kInit, text("{}", device), [&](World& w, Caller&) {
    if (device != 0) {
      return CuResult::kInvalidDevice;
    }
    if (w.primary != nullptr) {
      ++w.primary->retains;
    } else if (w.free_device_bytes() < w.config.context_bytes) {
      return CuResult::kOutOfMemory;
    } else {
      w.primary = w.make_context(true, 0);
    }
    *context = w.primary->handle;
    return CuResult::kSuccess;
  });
}

CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return call("cuDevicePrimaryCtxRelease_v2", Needs::kInit, text("{}", device),
              [&](World& w, Caller& caller) {
                if (device != 0 || w.primary == nullptr) {
                  w.report.violation(FAKE_CUDA_BAD_HANDLE,
                                     "cuDevicePrimaryCtxRelease: nobody has retained it");
                  return CuResult::kInvalidContext;
                }
                if (w.primary->retains > 1) {
                  --w.primary->retains;
                  return CuResult::kSuccess;
                }
                const std::shared_ptr<Context> ends = w.primary;
                const CuResult waited = w.drain(caller, *ends, false);
                if (waited == CuResult::kSuccess) {
                  w.primary.reset();
                  w.end_context(*ends);
                }
                return waited;
              });
}

// However often it is retained. What pools gave goes with it as well.
CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return call("cuDevicePrimaryCtxReset_v2", Needs::kInit, text("{}", device),
              [&](World& w, Caller& caller) {
                if (device != 0) {
                  return CuResult::kInvalidDevice;
                }
                const std::shared_ptr<Context> ends = w.primary;
                const CuResult waited =
                    ends != nullptr ? w.drain(caller, *ends, false) : CuResult::kSuccess;
                if (ends != nullptr && waited == CuResult::kSuccess) {
                  w.primary.reset();
                  w.forget_memory_of(nullptr);
                  w.end_context(*ends);
                  // The device's own pool is another, and may be called as one that is gone.
                  if (!w.pools.empty()) {
                    w.default_pool_handle = w.pools.begin()->first;
                  }
                  w.pools.clear();
                  w.current_pool = nullptr;
                  w.default_pool = {};
                }
                return waited;
              });
}

CuResult cuDevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", Needs::kInit, text("{}", device),
              [&](World& w, Caller&) {
                *flags = w.primary != nullptr ? w.primary->flags : 0;
                *active = w.primary != nullptr ? 1 : 0;
                return device == 0 ? CuResult::kSuccess : CuResult::kInvalidDevice;
              });
}

CuResult cuCtxCreate_v2(CuContext* context, unsigned flags, CuDevice device) {
  return call("cuCtxCreate_v2", Needs::kInit, text("{}, {}", flags, device),
              [&](World& w, Caller&) {
                if (device != 0) {
                  return CuResult::kInvalidDevice;
                }
                if (w.free_device_bytes() < w.config.context_bytes) {
                  return CuResult::kOutOfMemory;
                }
                const std::shared_ptr<Context> made = w.make_context(false, flags);
                this_thread().current.push_back(made);
                *context = made->handle;
                return CuResult::kSuccess;
              });
}

CuResult cuCtxDestroy_v2(CuContext context) {
  return call(
      "cuCtxDestroy_v2", Needs::kInit, text("{}", shown(context)), [&](World& w, Caller& caller) {
        const auto found = w.contexts.find(context);
        if (found == w.contexts.end() || found->second->primary) {
          w.report.violation(FAKE_CUDA_BAD_HANDLE,
                             "cuCtxDestroy: {} is no context that was created", shown(context));
          return CuResult::kInvalidContext;
        }
        const std::shared_ptr<Context> ends = found->second;
        const CuResult waited = w.drain(caller, *ends, false);
        if (waited != CuResult::kSuccess) {
          return waited;
        }
        w.end_context(*ends);
        ThreadState& thread = this_thread();
        if (!thread.current.empty() && thread.current.back() == ends) {
          thread.current.pop_back();
        }
        return CuResult::kSuccess;
      });
}

CuResult cuCtxSetCurrent(CuContext context) {
  return call("cuCtxSetCurrent", Needs::kInit, text("{}", shown(context)), [&](World& w, Caller&) {
    return make_current(w, "cuCtxSetCurrent", context, false);
  });
}

CuResult cuCtxPushCurrent_v2(CuContext context) {
  return call(
      "cuCtxPushCurrent_v2", Needs::kInit, text("{}", shown(context)),
      [&](World& w, Caller&) { return make_current(w, "cuCtxPushCurrent", context, true); });
}

CuResult cuCtxPopCurrent_v2(CuContext* context) {
  return call("cuCtxPopCurrent_v2", Needs::kInit, text(""), [&](World&, Caller& caller) {
    if (caller.context == nullptr) {
      return CuResult::kInvalidContext;
    }
    if (context != nullptr) {
      *context = caller.context->handle;
    }
    this_thread().current.pop_back();
    return CuResult::kSuccess;
  });
}

CuResult cuCtxGetCurrent(CuContext* context) {
  return call("cuCtxGetCurrent", Needs::kInit, text(""), [&](World&, Caller& caller) {
    *context = caller.context != nullptr ? caller.context->handle : nullptr;
    return CuResult::kSuccess;
  });
}

CuResult cuCtxGetDevice(CuDevice* device) {
  return call("cuCtxGetDevice", Needs::kContext, text(""), [&](World&, Caller&) {
    *device = 0;
    return CuResult::kSuccess;
  });
}

CuResult cuCtxSynchronize() {
  return call("cuCtxSynchronize", Needs::kContext, text(""), [&](World& w, Caller& caller) {
    const CuResult refused = w.waits_beside_captures(*caller.context);
    const CuResult waited =
        refused != CuResult::kSuccess ? refused : w.wait_for(caller, w.all_of(*caller.context));
    return waited != CuResult::kSuccess ? waited : caller.context->error;
  });
}

CuResult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", Needs::kContext, text(""), [&](World&, Caller&) {
    if (least != nullptr) {
      *least = 0;
    }
    if (greatest != nullptr) {
      *greatest = -5;
    }
    return CuResult::kSuccess;
  });
}

}  // namespace fake_cuda
