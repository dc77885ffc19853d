// See handle_pool.h.
#include "platform/cuda/handle_pool.h"

#include <algorithm>

namespace spillway::cuda {

CuResult HandlePool::take(Bytes bytes, CuMemHandle& handle) {
  if (const auto same = free_.find(bytes); same != free_.end()) {
    // The one that was used last: the others grow old and may be released.
    handle = same->second.back().handle;
    same->second.pop_back();
    if (same->second.empty()) {
      free_.erase(same);
    }
    free_bytes_ -= bytes;
    return CuResult::kSuccess;
  }
  if (full(bytes)) {
    return CuResult::kOutOfMemory;
  }
  release_down_to(budget_bytes_ - bytes);
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {.type = CuLocationType::kDevice, .id = device_};
  CuResult made = create(bytes, properties, handle);
  while (made == CuResult::kOutOfMemory && free_bytes_ > 0) {
    (void)release_oldest();
    made = create(bytes, properties, handle);
  }
  if (made == CuResult::kSuccess) {
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_.load(), bytes_.load());
  }
  return made;
}

CuResult HandlePool::create(Bytes bytes, const CuAllocationProperties& properties,
                            CuMemHandle& handle) {
  return times_.of(WorkTimes::What::kCreate,
                   [&] { return driver_->memory_create(&handle, bytes, &properties, 0); });
}

CuResult HandlePool::make_on_host(Bytes bytes, CuMemHandle& handle) {
  int possible = 0;
  int node = -1;
  (void)driver_->device_attribute(&possible, CuAttribute::kHostNumaVirtualMemory, device_);
  (void)driver_->device_attribute(&node, CuAttribute::kHostNumaId, device_);
  if (possible == 0 || node < 0) {
    return CuResult::kNotSupported;
  }
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {.type = CuLocationType::kHostNuma, .id = node};
  return create(bytes, properties, handle);
}

void HandlePool::give_back(CuMemHandle handle, Bytes bytes) {
  free_[bytes].push_back({.handle = handle, .since = given_back_++});
  free_bytes_ += bytes;
  release_down_to(budget_bytes_);
}

void HandlePool::set_budget(Bytes bytes) {
  budget_bytes_ = bytes;
  release_down_to(bytes);
}

void HandlePool::release_down_to(Bytes bytes) {
  while (bytes_ > bytes && free_bytes_ > 0) {
    (void)release_oldest();
  }
}

CuResult HandlePool::release_oldest() {
  const auto oldest = std::min_element(
      free_.begin(), free_.end(),
      [](const auto& a, const auto& b) { return a.second.front().since < b.second.front().since; });
  const Bytes bytes = oldest->first;
  const CuResult result = times_.of(WorkTimes::What::kRelease, [&] {
    return driver_->memory_release(oldest->second.front().handle);
  });
  oldest->second.pop_front();
  if (oldest->second.empty()) {
    free_.erase(oldest);
  }
  free_bytes_ -= bytes;
  bytes_ -= bytes;
  if (first_error_ == CuResult::kSuccess) {
    first_error_ = result;
  }
  return result;
}

CuResult HandlePool::release_free() {
  while (free_bytes_ > 0) {
    (void)release_oldest();
  }
  return first_error_;
}

}  // namespace spillway::cuda
