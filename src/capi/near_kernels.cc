// The functions of near.h that are about modes, kernels and statistics. Layer: capi.
#include <algorithm>
#include <cstring>

#include "capi/near_adam.h"
#include "capi/near_device.h"

namespace {

using spillway::Result;
using spillway::Status;
using spillway::capi::fail;
using spillway::capi::Failure;
using spillway::capi::given;
using spillway::capi::is_null;
using spillway::capi::on_device;
using spillway::capi::Outcome;
using spillway::capi::told;
using spillway::near::Device;
using spillway::near::KernelTicket;
using spillway::near::Mode;

// A kernel's number is unique on its channel; its handle, on the device.
spillwayNearKernel_t handle_of(KernelTicket kernel) {
  return kernel.number * spillway::near::kChannelsMax + kernel.channel;
}
KernelTicket marker_of(spillwayNearKernel_t kernel) {
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

}  // namespace

extern "C" {

// --- Modes and kernels --------------------------------------------------------------------------

spillwayError_t spillwayNearSetMode(uint32_t channel, spillwayNearMode_t mode,
                                    spillwayNear_t near) {
  return on_device(near, [&](Device& device) -> Outcome<void> {
    const int wanted = spillway::capi::number_in(mode);
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
  return on_device(near, [&](Device& device) { return told(device.wait(marker_of(kernel))); });
}

spillwayError_t spillwayNearPoll(int* ended, spillwayNearKernel_t kernel, spillwayNear_t near) {
  return on_device(near, [&](const Device& device) -> Outcome<void> {
    if (ended == nullptr) {
      return is_null("ended");
    }
    return given(device.poll(marker_of(kernel)), ended);
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
