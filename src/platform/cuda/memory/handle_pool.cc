// See handle_pool.h.
#include "platform/cuda/memory/handle_pool.h"

#include <algorithm>

namespace spillway::cuda {

CuResult HandlePool::take(Bytes bytes, CuMemHandle& handle) {
  Bytes most_bytes = 0;
  {
    const MutexLock lock(mutex_);
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
    if (bytes_ - free_bytes_ + bytes > budget_bytes_) {
      return CuResult::kOutOfMemory;
    }
    most_bytes = std::min(budget_bytes_, kept_at_most_bytes_.load());
    most_bytes -= std::min(most_bytes, bytes);
  }
  release_down_to(most_bytes);
  CuResult made = create(bytes, handle);
  while (made == CuResult::kOutOfMemory && release_oldest() != CuResult::kNotFound) {
    made = create(bytes, handle);
  }
  if (made == CuResult::kSuccess) {
    const MutexLock lock(mutex_);
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_.load(), bytes_.load());
  }
  return made;
}

CuResult HandlePool::create(Bytes bytes, CuMemHandle& handle) {
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {.type = CuLocationType::kDevice, .id = device_};
  properties.exported_as = exportable_ ? CuHandleType::kFileDescriptor : CuHandleType::kNone;
  properties.flags.rdma_capable = rdma_capable_ ? 1 : 0;
  return times_.of(WorkTimes::What::kCreate,
                   [&] { return driver_->memory_create(&handle, bytes, &properties, 0); });
}

void HandlePool::give_back(CuMemHandle handle, Bytes bytes) {
  {
    const MutexLock lock(mutex_);
    free_[bytes].push_back({.handle = handle, .since = given_back_++});
    free_bytes_ += bytes;
  }
  release_what_is_too_much();
}

void HandlePool::release_what_is_too_much() {
  Bytes most_bytes = 0;
  {
    const MutexLock lock(mutex_);
    most_bytes = std::min(budget_bytes_, kept_at_most_bytes_.load());
  }
  release_down_to(most_bytes);
}

bool HandlePool::put_back(CuMemHandle handle, Bytes bytes) {
  const MutexLock lock(mutex_);
  if (bytes_ > budget_bytes_) {
    return false;
  }
  free_[bytes].push_back({.handle = handle, .since = given_back_++});
  free_bytes_ += bytes;
  return true;
}

bool HandlePool::claim(CuMemHandle handle, Bytes bytes) {
  const MutexLock lock(mutex_);
  const auto same = free_.find(bytes);
  if (same == free_.end()) {
    return false;
  }
  std::deque<Free>& all = same->second;
  const auto found =
      std::find_if(all.rbegin(), all.rend(), [&](const Free& it) { return it.handle == handle; });
  if (found == all.rend()) {
    return false;
  }
  all.erase(std::next(found).base());
  if (all.empty()) {
    free_.erase(same);
  }
  free_bytes_ -= bytes;
  return true;
}

void HandlePool::set_budget(Bytes bytes) {
  {
    const MutexLock lock(mutex_);
    budget_bytes_ = bytes;
  }
  release_what_is_too_much();
}

void HandlePool::release_down_to(Bytes bytes) {
  while (bytes_ > bytes && release_oldest() != CuResult::kNotFound) {
  }
}

CuResult HandlePool::release_oldest() {
  CuMemHandle handle = 0;
  Bytes bytes = 0;
  {
    const MutexLock lock(mutex_);
    const auto oldest =
        std::min_element(free_.begin(), free_.end(), [](const auto& a, const auto& b) {
          return a.second.front().since < b.second.front().since;
        });
    if (oldest == free_.end()) {
      return CuResult::kNotFound;
    }
    bytes = oldest->first;
    handle = oldest->second.front().handle;
    oldest->second.pop_front();
    if (oldest->second.empty()) {
      free_.erase(oldest);
    }
    free_bytes_ -= bytes;
  }
  return release(handle, bytes);
}

CuResult HandlePool::release(CuMemHandle handle, Bytes bytes) {
  CuResult result = told_ ? told_(handle) : CuResult::kSuccess;
  const CuResult released =
      times_.of(WorkTimes::What::kRelease, [&] { return driver_->memory_release(handle); });
  result = result == CuResult::kSuccess ? released : result;
  {
    const MutexLock lock(mutex_);
    bytes_ -= bytes;
  }
  if (first_error_ == CuResult::kSuccess) {
    first_error_ = result;
  }
  return result;
}

CuResult HandlePool::release_free() {
  while (release_oldest() != CuResult::kNotFound) {
  }
  return first_error_;
}

}  // namespace spillway::cuda
