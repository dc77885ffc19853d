// See device.h.
#include "platform/near/device.h"

#include <algorithm>
#include <utility>

#include "platform/near/memory/cuda_memory.h"

namespace spillway::near {
namespace {

constexpr Bytes kAbsurdBytes = 1024 * kTiB;  // sums of sizes below it do not overflow

Status check_size(Bytes bytes) {
  if (bytes == 0 || bytes > kAbsurdBytes) {
    return make_error(bytes == 0 ? ErrorCode::kInvalidInput : ErrorCode::kNoRoom,
                      "an allocation of {} bytes; ask for from 1 byte to 1 PiB", bytes);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const DeviceOptions& options) {
  if (options.channels == 0 || options.channels > kChannelsMax || options.channel_bytes == 0 ||
      options.channel_bytes > kAbsurdBytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "a near device of {} channels of {} bytes; it has from 1 to {} channels of "
                      "from 1 byte to 1 PiB",
                      options.channels, options.channel_bytes, kChannelsMax);
  }
  std::vector<std::unique_ptr<Channel>> channels;
  for (std::uint32_t number = 0; number < options.channels; ++number) {
    Result<std::unique_ptr<Channel>> channel =
        Channel::open(number, options.channel_bytes, options.check_access);
    if (!channel) {
      return tl::unexpected<Error>(channel.error());
    }
    channels.push_back(std::move(*channel));
  }
  return std::unique_ptr<Device>(new Device(std::move(channels), options));
}

Device::Device(std::vector<std::unique_ptr<Channel>> channels, const DeviceOptions& options)
    : channels_(std::move(channels)),
      storage_(options.wrap_storage),
      gpu_(options.open_gpu ? options.open_gpu : [] { return open_cuda_memory(0); }) {}

Result<Channel*> Device::channel_at(std::uint32_t number) const {
  if (number >= channels_.size()) {
    return make_error(ErrorCode::kInvalidInput, "no channel has the number {}; there are {}",
                      number, channels_.size());
  }
  return channels_[number].get();
}

Channel* Device::channel_of(Address address) const {
  for (const std::unique_ptr<Channel>& channel : channels_) {
    if (channel->has(address)) {
      return channel.get();
    }
  }
  return nullptr;
}

bool Device::reaches_in(Address start, Bytes bytes) const {
  return std::any_of(channels_.begin(), channels_.end(), [&](const auto& channel) {
    return channel->start() >= start && channel->start() - start < bytes;
  });
}

// --- Memory -------------------------------------------------------------------------------------

Result<char*> Device::allocate(Bytes bytes, std::uint32_t channel) {
  const Result<Channel*> found = channel_at(channel);
  if (!found) {
    return tl::unexpected<Error>(found.error());
  }
  if (const Status size = check_size(bytes); !size) {
    return tl::unexpected<Error>(size.error());
  }
  return (*found)->allocate(bytes);
}

Result<Address> Device::allocate_on_storage(Bytes bytes, std::uint32_t storage) {
  if (const Status size = check_size(bytes); !size) {
    return tl::unexpected<Error>(size.error());
  }
  return storage_.allocate(bytes, storage);
}

Result<Address> Device::allocate_on_gpu(Bytes bytes) {
  if (const Status size = check_size(bytes); !size) {
    return tl::unexpected<Error>(size.error());
  }
  return gpu_.allocate(bytes);
}

Status Device::free(Location start) {
  switch (start.side) {
    case Side::kNear:
      if (Channel* const channel = channel_of(start.address); channel != nullptr) {
        return channel->free(start.address);
      }
      return make_error(ErrorCode::kInvalidInput, "{:#x} is not memory of this near device",
                        start.address);
    case Side::kGpu:
      return gpu_.free(start.address);
    case Side::kStorage:
      return storage_.free(start.address);
    case Side::kHost:
      break;
  }
  return make_error(ErrorCode::kInvalidInput,
                    "memory of the host is the program's own; free it where it was allocated");
}

// --- Copies -------------------------------------------------------------------------------------

Result<Device::HeldEnd> Device::hold(Location location, Bytes bytes) {
  HeldEnd held;
  held.end.side = location.side;
  switch (location.side) {
    case Side::kHost:
    case Side::kNear: {
      Channel* const channel = channel_of(location.address);
      if (channel == nullptr && location.side == Side::kNear) {
        return make_error(ErrorCode::kInvalidInput, "{:#x} is not memory of this near device",
                          location.address);
      }
      if (channel != nullptr && location.side == Side::kHost) {
        return make_error(ErrorCode::kInvalidInput,
                          "{:#x} is near memory; copy it as such, not as memory of the host",
                          location.address);
      }
      held.end.memory = pointer_to(location.address);
      if (channel != nullptr) {
        Result<Channel::HostUse> use = channel->use_as_host(location.address, bytes);
        if (!use) {
          return tl::unexpected<Error>(use.error());
        }
        held.near = std::move(*use);
      } else if (location.address == 0 || reaches_in(location.address, bytes)) {
        return make_error(ErrorCode::kInvalidInput, "{} bytes at {:#x} of the host's memory {}",
                          bytes, location.address,
                          location.address == 0 ? "begin at NULL" : "reach into near memory");
      }
      return held;
    }
    case Side::kGpu: {
      const Result<GpuMemory*> gpu = gpu_.gpu();
      if (!gpu) {
        return tl::unexpected<Error>(gpu.error());
      }
      Result<Hold> hold = gpu_.hold(location.address, bytes);
      if (!hold) {
        return tl::unexpected<Error>(hold.error());
      }
      held.end.gpu = *gpu;
      held.end.at = location.address;
      held.other = std::move(*hold);
      return held;
    }
    case Side::kStorage:
      break;
  }
  Result<StoragePlaces::Place> place = storage_.hold(location.address, bytes);
  if (!place) {
    return tl::unexpected<Error>(place.error());
  }
  held.end.storage = place->storage;
  held.end.at = place->offset;
  held.other = std::move(place->hold);
  return held;
}

Status Device::copy(Location to, Location from, Bytes bytes) {
  if (bytes == 0) {
    return {};
  }
  if (bytes > kAbsurdBytes) {
    return make_error(ErrorCode::kInvalidInput, "a copy of {} bytes; nothing holds so many", bytes);
  }
  if (to.side == from.side && to.address < from.address + bytes &&
      from.address < to.address + bytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "{} bytes at {:#x} overlap those at {:#x}, to which they are to be copied",
                      bytes, from.address, to.address);
  }
  const Result<HeldEnd> source = hold(from, bytes);
  if (!source) {
    return tl::unexpected<Error>(source.error());
  }
  const Result<HeldEnd> target = hold(to, bytes);
  if (!target) {
    return tl::unexpected<Error>(target.error());
  }
  Status copied = routes_.copy(target->end, source->end, bytes);
  if (copied) {
    copied_bytes_[index_of(from.side)][index_of(to.side)] += bytes;
    ++copies_;
  }
  return copied;
}

// --- Statistics ---------------------------------------------------------------------------------

DeviceStatistics Device::statistics() const {
  DeviceStatistics now;
  for (std::size_t from = 0; from < kSides; ++from) {
    for (std::size_t to = 0; to < kSides; ++to) {
      now.copied_bytes[from][to] = copied_bytes_[from][to];
    }
  }
  now.copies = copies_;
  now.staged_bytes = routes_.staged_bytes() + storage_.staged_bytes();
  return now;
}

Result<ChannelStatistics> Device::channel_statistics(std::uint32_t channel) const {
  const Result<Channel*> found = channel_at(channel);
  return found ? Result<ChannelStatistics>((*found)->statistics())
               : tl::unexpected<Error>(found.error());
}

}  // namespace spillway::near
