// The functions of near.h that are about devices, memory and copies: arguments checked, handles
// resolved, nothing thrown. Layer: capi.
#include "spillway/near.h"

#include <memory>
#include <utility>

#include "capi/near_device.h"
#include "platform/near/memory/cuda_memory.h"

namespace {

using spillway::Result;
using spillway::capi::fail;
using spillway::capi::Failure;
using spillway::capi::given;
using spillway::capi::guarded;
using spillway::capi::is_null;
using spillway::capi::near_devices;
using spillway::capi::on_device;
using spillway::capi::Outcome;
using spillway::capi::told;
using spillway::near::Device;
using spillway::near::Location;
using spillway::near::Side;

Outcome<Location> location_of(const spillwayNearLocation_t& location, const char* end) {
  const int side = spillway::capi::number_in(location.side);
  if (side < spillwayNearSideHost || side > spillwayNearSideStorage) {
    return fail(spillwayErrorInvalidValue, "{}: {} is no spillwayNearSide_t", end, side);
  }
  return Location{.side = static_cast<Side>(side), .address = location.address};
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

// Never destroyed: other destructors at the end of the process may still use memory of a device.
spillway::capi::Handles<spillwayNear_t, Device>& spillway::capi::near_devices() {
  static auto* const all = new Handles<spillwayNear_t, Device>;
  return *all;
}

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
    *near = near_devices().add(std::move(*opened));
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
    near_devices().remove(near);
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

}  // extern "C"
