// See host_handles.h.
#include "platform/cuda/memory/host_handles.h"

#include <algorithm>
#include <iterator>

namespace spillway::cuda {

CuResult HostHandles::take(Bytes bytes, CuMemHandle& handle) {
  const auto same = std::find_if(free_.rbegin(), free_.rend(),
                                 [&](const Free& free) { return free.bytes == bytes; });
  if (same != free_.rend()) {
    handle = same->handle;
    free_.erase(std::next(same).base());
    free_bytes_ -= bytes;
  } else if (const CuResult made = make(bytes, handle); made != CuResult::kSuccess) {
    return made;
  }
  used_bytes_ += bytes;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  (void)release_down_to(most_used_bytes_);
  return CuResult::kSuccess;
}

std::optional<int> node_of_host_handles(const Driver& driver, int device) {
  int possible = 0;
  int node = -1;
  (void)driver.device_attribute(&possible, CuAttribute::kHostNumaVirtualMemory, device);
  (void)driver.device_attribute(&node, CuAttribute::kHostNumaId, device);
  return possible != 0 && node >= 0 ? std::optional(node) : std::nullopt;
}

CuResult HostHandles::make(Bytes bytes, CuMemHandle& handle) {
  const std::optional<int> node = node_of_host_handles(*driver_, device_);
  if (!node) {
    return CuResult::kNotSupported;
  }
  if (spare_bytes_ && spare_bytes_() < bytes) {
    return CuResult::kOutOfMemory;
  }
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {.type = CuLocationType::kHostNuma, .id = *node};
  const CuResult made = times_->of(WorkTimes::What::kCreate, [&] {
    return driver_->memory_create(&handle, bytes, &properties, 0);
  });
  bytes_ += made == CuResult::kSuccess ? bytes : 0;
  return made;
}

CuResult HostHandles::give_back(CuMemHandle handle, Bytes bytes) {
  used_bytes_ -= bytes;
  free_.push_back({.handle = handle, .bytes = bytes});
  free_bytes_ += bytes;
  return release_down_to(most_used_bytes_);
}

CuResult HostHandles::release_down_to(Bytes bytes) {
  CuResult first = CuResult::kSuccess;
  while (used_bytes_ + free_bytes_ > bytes && !free_.empty()) {
    const Free oldest = free_.front();
    free_.pop_front();
    free_bytes_ -= oldest.bytes;
    bytes_ -= oldest.bytes;
    const CuResult released = times_->of(WorkTimes::What::kRelease,
                                         [&] { return driver_->memory_release(oldest.handle); });
    first = first == CuResult::kSuccess ? released : first;
  }
  return first;
}

CuResult HostHandles::release_free() { return release_down_to(used_bytes_); }

}  // namespace spillway::cuda
