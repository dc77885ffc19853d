// The functional near device: memory in channels, each with a kernel beside it, and copies between
// host, near memory, GPU and storage. Layer: platform, near. docs/near-memory.md explains it; what
// the C API does for C programs (include/spillway/near.h), it does here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "optimizer/update.h"
#include "platform/near/memory/channel.h"
#include "platform/near/memory/channel_ranges.h"
#include "platform/near/memory/location.h"
#include "platform/near/routes.h"

namespace spillway::near {

inline constexpr std::uint32_t kChannelsMax = 64;
#ifdef NDEBUG
inline constexpr bool kChecksAccess = false;
#else
inline constexpr bool kChecksAccess = true;
#endif

struct DeviceOptions {
  std::uint32_t channels = 2;
  Bytes channel_bytes = kGiB;  // addresses; memory is taken where it is touched
  // An access of the host to a channel in acceleration mode is noticed as it happens.
  bool check_access = kChecksAccess;
  GpuPlaces::Open open_gpu;      // when it is first wanted; empty: device 0 of the CUDA driver
  StorageIo::Wrap wrap_storage;  // what tests put before the files
};

struct DeviceStatistics {
  std::array<std::array<Bytes, kSides>, kSides> copied_bytes{};  // from, to
  std::uint64_t copies = 0;
  Bytes staged_bytes = 0;  // that went through a buffer
};

struct KernelTicket {
  std::uint32_t channel = 0;
  std::uint64_t number = 0;  // never 0
};

// Thread-safe. What fails says so in one line and has changed nothing, but for copies that storage
// or GPU have ended in the middle.
class Device {
 public:
  // kInvalidInput: options that no device has; kNoRoom.
  static Result<std::unique_ptr<Device>> open(const DeviceOptions& options);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // When the kernels that were launched have ended. Nobody is inside a call.
  ~Device() = default;

  // A folder, a new file or a block device; 0 bytes: what there is. Its number, from 0 on.
  Result<std::uint32_t> register_storage(const std::string& path, Bytes bytes) {
    return storage_.add_storage(path, bytes);
  }

  // More than 0 bytes. Near memory is the host's to touch while its channel is in normal mode.
  Result<char*> allocate(Bytes bytes, std::uint32_t channel);
  Result<Address> allocate_on_storage(Bytes bytes, std::uint32_t storage);
  Result<Address> allocate_on_gpu(Bytes bytes);
  // At the start of an allocation. kBusy: a copy or a kernel uses it.
  Status free(Location start);

  // Returns when the bytes are there. All of them are in one allocation on each side that is near
  // memory or storage, or GPU memory that was allocated here; of the host's memory and other GPU
  // memory nothing is known. Both ends do not overlap. kMode: the host cannot touch that channel.
  Status copy(Location to, Location from, Bytes bytes);

  Status set_mode(std::uint32_t channel, Mode mode);
  Result<Mode> mode(std::uint32_t channel) const;

  // One step over tensors of `elements` > 0 elements in the channel's memory, behind the kernels
  // that were launched there before. Results lie where their inputs do, or in memory that overlaps
  // nothing else.
  Result<KernelTicket> update_async(std::uint32_t channel, const optimizer::Update& update,
                                    const optimizer::Step& step,
                                    const optimizer::Operands& operands, std::size_t elements);
  // Any other kernel. `uses` are in the channel's memory.
  Result<KernelTicket> launch(std::uint32_t channel, std::unique_ptr<Kernel> kernel,
                              std::span<const Span> uses);
  // The same byte of the channel's memory as its kernels see it.
  [[nodiscard]] char* as_kernel(std::uint32_t channel, Address address) const {
    return channels_[channel]->as_kernel(address);
  }
  // The kernel's outcome, when it has ended.
  Status wait(KernelTicket kernel);
  // Whether it has ended; an error is its outcome.
  Result<bool> poll(KernelTicket kernel) const;
  // Waits for the kernels that were launched on the channel before.
  Status synchronize(std::uint32_t channel);
  // No kernel runs or is queued.
  [[nodiscard]] bool idle() const;

  [[nodiscard]] std::uint32_t channels() const {
    return static_cast<std::uint32_t>(channels_.size());
  }
  [[nodiscard]] DeviceStatistics statistics() const;
  Result<ChannelStatistics> channel_statistics(std::uint32_t channel) const;

 private:
  struct HeldEnd {
    End end;
    Channel::HostUse near;
    Hold other;
  };
  Device(std::vector<std::unique_ptr<Channel>> channels, const DeviceOptions& options);
  Result<Channel*> channel_at(std::uint32_t number) const;
  // nullptr if no channel has it.
  [[nodiscard]] Channel* channel_of(Address address) const;
  // Whether memory that starts in no channel goes on into one.
  [[nodiscard]] bool reaches_in(Address start, Bytes bytes) const;
  Result<HeldEnd> hold(Location location, Bytes bytes);

  std::vector<std::unique_ptr<Channel>> channels_;
  StoragePlaces storage_;
  GpuPlaces gpu_;
  Routes routes_;
  std::array<std::array<std::atomic<Bytes>, kSides>, kSides> copied_bytes_{};
  std::atomic<std::uint64_t> copies_{0};
};

}  // namespace spillway::near
