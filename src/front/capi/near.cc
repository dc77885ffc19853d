// The functions of near.h: arguments checked, handles resolved, nothing thrown. Layer: front, C
// API.
#include "spillway/near.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "front/capi/failure.h"
#include "front/capi/handles.h"
#include "front/capi/near_adam.h"
#include "platform/near/cuda_memory.h"
#include "platform/near/device.h"

// What a handle points to. It has an address, which is never given out twice, and nothing else.
struct spillwayNear_st {};

namespace {

using spillway::Result;
using spillway::Status;
using spillway::capi::fail;
using spillway::capi::Failure;
using spillway::capi::guarded;
using spillway::capi::is_null;
using spillway::capi::Outcome;
using spillway::near::Device;
using spillway::near::KernelTicket;
using spillway::near::Location;
using spillway::near::Mode;
using spillway::near::Side;

// Never destroyed: other destructors at the end of the process may still use memory of a device.
auto& devices() {
  static auto* const all = new spillway::capi::Handles<spillwayNear_t, Device>;
  return *all;
}

// Runs the body with the device that the handle stands for.
template <typename Body>
spillwayError_t on_device(spillwayNear_t near, Body body) {
  return guarded([&]() -> Outcome<void> {
    if (near == nullptr) {
      return is_null("near");
    }
    const std::shared_ptr<Device> device = devices().find(near);
    if (device == nullptr) {
      return fail(spillwayErrorInvalidValue, "the near device does not exist; has it been closed?");
    }
    return body(*device);
  });
}

Outcome<void> told(const Status& status) {
  return status ? Outcome<void>{} : fail(status.error(), spillwayErrorNotSupported);
}

// Puts what was asked for where the caller wants it.
template <typename T, typename To>
Outcome<void> given(const Result<T>& result, To* to) {
  if (!result) {
    return fail(result.error(), spillwayErrorNotSupported);
  }
  *to = *result;
  return {};
}

Outcome<Location> location_of(const spillwayNearLocation_t& location, const char* end) {
  const int side = location.side;
  if (side < spillwayNearSideHost || side > spillwayNearSideStorage) {
    return fail(spillwayErrorInvalidValue, "{}: {} is no spillwayNearSide_t", end, side);
  }
  return Location{.side = static_cast<Side>(side), .address = location.address};
}

// A kernel's number is unique on its channel; its handle, on the device.
spillwayNearKernel_t handle_of(KernelTicket kernel) {
  return kernel.number * spillway::near::kChannelsMax + kernel.channel;
}
KernelTicket ticket_of(spillwayNearKernel_t kernel) {
  return {.channel = static_cast<std::uint32_t>(kernel % spillway::near::kChannelsMax),
          .number = kernel / spillway::near::kChannelsMax};
}

template <typename Statistics>
Outcome<void> give_statistics(const Statistics& values, Statistics* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) {
    return to == nullptr ? is_null("statistics")
                         : fail(spillwayErrorInvalidValue, "statistics of 0 bytes");
  }
  std::memcpy(to, &values, std::min(bytes, sizeof(values)));
  return {};
}

spillwayNearOptions_t default_near_options() {
  const spillway::near::DeviceOptions defaults;
  spillwayNearOptions_t options{};
  options.size = sizeof(options);
  options.channels = defaults.channels;
  options.channelBytes = defaults.channel_bytes;
  options.checkAccess = defaults.check_access ? 1 : 0;
  return options;
}

}  // namespace

extern "C" {

// --- Devices ------------------------------------------------------------------------------------

spillwayError_t spillwayNearOptionsInit(spillwayNearOptions_t* options, size_t size) {
  return guarded([&]() -> Outcome<void> {
    if (options == nullptr) {
      return is_null("options");
    }
    if (size != sizeof(*options)) {
      return fail(spillwayErrorInvalidValue,
                  "options of {} bytes are of another version of this library", size);
    }
    *options = default_near_options();
    return {};
  });
}

spillwayError_t spillwayNearOpen(spillwayNear_t* near, const spillwayNearOptions_t* options) {
  return guarded([&]() -> Outcome<void> {
    if (near == nullptr) {
      return is_null("near");
    }
    const spillwayNearOptions_t wanted = options == nullptr ? default_near_options() : *options;
    if (wanted.size != sizeof(wanted) || wanted.reserved != 0) {
      return fail(spillwayErrorInvalidValue,
                  "options that spillwayNearOptionsInit has not filled in, or of another version "
                  "of this library");
    }
    Result<std::unique_ptr<Device>> opened = Device::open(
        {.channels = wanted.channels,
         .channel_bytes = wanted.channelBytes,
         .check_access = wanted.checkAccess != 0,
         .open_gpu = [gpu = wanted.gpu] { return spillway::near::open_cuda_memory(gpu); },
         .wrap_storage = {}});
    if (!opened) {
      return fail(opened.error(), spillwayErrorNotSupported);
    }
    *near = devices().add(std::move(*opened));
    return {};
  });
}

spillwayError_t spillwayNearClose(spillwayNear_t near) {
  if (near == nullptr) {
    return spillwaySuccess;
  }
  return on_device(near, [&](const Device& device) -> Outcome<void> {
    if (!device.idle()) {
      return fail(spillwayErrorBusy,
                  "a kernel of the near device has not ended; call spillwayNearSynchronize before "
                  "closing it");
    }
    // The memory goes when this call returns, unless another thread is inside one of its own.
    devices().remove(near);
    return {};
  });
}

spillwayError_t spillwayNearRegisterStorage(uint32_t* storage, const char* path, uint64_t bytes,
                                            spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    if (storage == nullptr || path == nullptr) {
      return is_null(storage == nullptr ? "storage" : "path");
    }
    return given(device.register_storage(path, bytes), storage);
  });
}

// --- Memory -------------------------------------------------------------------------------------

spillwayError_t spillwayNearMalloc(void** ptr, size_t size, uint32_t channel, spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    if (ptr == nullptr) {
      return is_null("ptr");
    }
    if (size == 0) {
      *ptr = nullptr;
      return {};
    }
    return given(device.allocate(size, channel), ptr);
  });
}

spillwayError_t spillwayNearFree(void* ptr, spillwayNear_t near) {
  return on_device(near, [&](Device& device) {
    return ptr == nullptr ? Outcome<void>{} : told(device.free(spillway::near::at_near(ptr)));
  });
}

spillwayError_t spillwayNearMallocStorage(uint64_t* place, size_t size, uint32_t storage,
                                          spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    if (place == nullptr) {
      return is_null("place");
    }
    if (size == 0) {
      *place = 0;
      return {};
    }
    return given(device.allocate_on_storage(size, storage), place);
  });
}

spillwayError_t spillwayNearFreeStorage(uint64_t place, spillwayNear_t near) {
  return on_device(near, [&](Device& device) {
    return place == 0 ? Outcome<void>{} : told(device.free(spillway::near::at_storage(place)));
  });
}

spillwayError_t spillwayNearMallocGpu(uint64_t* address, size_t size, spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    if (address == nullptr) {
      return is_null("address");
    }
    if (size == 0) {
      *address = 0;
      return {};
    }
    return given(device.allocate_on_gpu(size), address);
  });
}

spillwayError_t spillwayNearFreeGpu(uint64_t address, spillwayNear_t near) {
  return on_device(near, [&](Device& device) {
    return address == 0 ? Outcome<void>{} : told(device.free(spillway::near::at_gpu(address)));
  });
}

spillwayError_t spillwayNearMemcpy(spillwayNearLocation_t dst, spillwayNearLocation_t src,
                                   size_t count, spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    const Outcome<Location> to = location_of(dst, "dst");
    const Outcome<Location> from = location_of(src, "src");
    if (!to || !from) {
      return tl::unexpected<Failure>(to ? from.error() : to.error());
    }
    return told(device.copy(*to, *from, count));
  });
}

// --- Modes and kernels --------------------------------------------------------------------------

spillwayError_t spillwayNearSetMode(uint32_t channel, spillwayNearMode_t mode,
                                    spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    const int wanted = mode;
    if (wanted != spillwayNearModeNormal && wanted != spillwayNearModeAcceleration) {
      return fail(spillwayErrorInvalidValue, "{} is no spillwayNearMode_t", wanted);
    }
    return told(device.set_mode(
        channel, wanted == spillwayNearModeNormal ? Mode::kNormal : Mode::kAcceleration));
  });
}

spillwayError_t spillwayNearGetMode(spillwayNearMode_t* mode, uint32_t channel,
                                    spillwayNear_t near) {
  return on_device(near, [&](const Device& device) -> Outcome<void> {
    if (mode == nullptr) {
      return is_null("mode");
    }
    return given(device.mode(channel).map([](Mode now) {
      return now == Mode::kNormal ? spillwayNearModeNormal : spillwayNearModeAcceleration;
    }),
                 mode);
  });
}

spillwayError_t spillwayNearAdamAsync(spillwayNearKernel_t* kernel, const spillwayNearAdam_t* adam,
                                      uint32_t channel, spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    if (kernel == nullptr || adam == nullptr) {
      return is_null(kernel == nullptr ? "kernel" : "adam");
    }
    const Outcome<spillway::capi::AdamStep> step = spillway::capi::checked_adam(*adam);
    if (!step) {
      return tl::unexpected<Failure>(step.error());
    }
    return given(
        device.update_async(channel, step->update, step->step, step->operands, step->elements)
            .map(handle_of),
        kernel);
  });
}

spillwayError_t spillwayNearWait(spillwayNearKernel_t kernel, spillwayNear_t near) {
  return on_device(near, [&](Device& device) { return told(device.wait(ticket_of(kernel))); });
}

spillwayError_t spillwayNearPoll(int* ended, spillwayNearKernel_t kernel, spillwayNear_t near) {
  return on_device(near, [&](const Device& device) -> Outcome<void> {
    if (ended == nullptr) {
      return is_null("ended");
    }
    return given(device.poll(ticket_of(kernel)), ended);
  });
}

spillwayError_t spillwayNearSynchronize(spillwayNear_t near) {
  return on_device(near, [](Device& device) {
    Status done;
    for (std::uint32_t channel = 0; channel < device.channels() && done; ++channel) {
      done = device.synchronize(channel);
    }
    return told(done);
  });
}

// --- State --------------------------------------------------------------------------------------

spillwayError_t spillwayNearGetStatistics(spillwayNearStatistics_t* statistics, size_t size,
                                          spillwayNear_t near) {
  return on_device(near, [&](const Device& device) {
    const spillway::near::DeviceStatistics now = device.statistics();
    spillwayNearStatistics_t values{};
    for (std::size_t from = 0; from < spillway::near::kSides; ++from) {
      std::copy(now.copied_bytes[from].begin(), now.copied_bytes[from].end(),
                values.copiedBytes[from]);
    }
    values.copies = now.copies;
    values.stagedBytes = now.staged_bytes;
    return give_statistics(values, statistics, size);
  });
}

spillwayError_t spillwayNearGetChannelStatistics(spillwayNearChannelStatistics_t* statistics,
                                                 size_t size, uint32_t channel,
                                                 spillwayNear_t near) {
  return on_device(near, [&](const Device& device) -> Outcome<void> {
    const Result<spillway::near::ChannelStatistics> now = device.channel_statistics(channel);
    if (!now) {
      return fail(now.error(), spillwayErrorNotSupported);
    }
    spillwayNearChannelStatistics_t values{};
    values.memoryBytes = now->bytes;
    values.freeBytes = now->free_bytes;
    values.kernels = now->kernels;
    values.kernelNs = static_cast<std::uint64_t>(now->kernel_ns);
    values.modeSwitches = now->mode_switches;
    values.waitedNs = static_cast<std::uint64_t>(now->waited_ns);
    return give_statistics(values, statistics, size);
  });
}

}  // extern "C"
