// A channel's memory, seen by the host and by the channel's kernel at different addresses: the
// host's view can be closed while the kernel works. Layer: platform, near. Not thread-safe, but for
// what is const.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/free_ranges.h"
#include "base/units.h"
#include "platform/near/access_check.h"
#include "platform/near/memory/allocations.h"
#include "platform/near/memory/location.h"

namespace spillway::near {

class ChannelMemory {
 public:
  // Addresses for `bytes` in whole pages; memory where it is touched. With `check_access` the
  // host's view can be closed. kNoRoom: the system has no more addresses.
  static Result<std::unique_ptr<ChannelMemory>> make(std::uint32_t channel, Bytes bytes,
                                                     bool check_access);
  ChannelMemory(const ChannelMemory&) = delete;
  ChannelMemory& operator=(const ChannelMemory&) = delete;
  ~ChannelMemory();

  // On a page of its own, as direct I/O wants; reads as zeros. The address is the host's. kNoRoom.
  Result<char*> allocate(Bytes bytes);
  // The memory goes back to the system.
  Status free(Address start);
  [[nodiscard]] Allocations& allocations() { return allocations_; }

  // Where nothing is checked, does nothing.
  Status open_to_host(bool open);
  [[nodiscard]] bool has(Address address) const {
    return address >= start_ && address - start_ < bytes_;
  }
  // As the host sees it.
  [[nodiscard]] Address start() const { return start_; }
  // The same byte as the kernel sees it.
  [[nodiscard]] char* as_kernel(Address address) const { return kernel_ + (address - start_); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] Bytes free_bytes() const { return free_bytes_; }

 private:
  ChannelMemory(std::uint32_t channel, char* host, char* kernel, Bytes bytes, bool check_access);

  char* host_;
  char* kernel_;
  Address start_;  // the host's
  Bytes bytes_;
  Bytes free_bytes_;
  FreeRanges free_pages_;
  Allocations allocations_;
  std::unique_ptr<WatchedRange> watched_;  // none where nothing is checked
};

}  // namespace spillway::near
