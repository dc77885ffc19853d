// What the handles of the C API stand for. Layer: capi. Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace spillway::capi {

// A handle is a pointer with an address that is never given out twice, and nothing behind it. An
// object lives until it has been removed and nobody is inside a call with it.
template <typename Handle, typename Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const MutexLock lock(mutex_);
    Handle handle = &given_.emplace_back();
    alive_.emplace(handle, std::move(object));
    return handle;
  }
  // nullptr if there is none any more.
  std::shared_ptr<Object> find(Handle handle) {
    const MutexLock lock(mutex_);
    const auto found = alive_.find(handle);
    return found == alive_.end() ? nullptr : found->second;
  }
  void remove(Handle handle) {
    std::shared_ptr<Object> last;  // goes without the lock
    const MutexLock lock(mutex_);
    if (const auto found = alive_.find(handle); found != alive_.end()) {
      last = std::move(found->second);
      alive_.erase(found);
    }
  }

 private:
  Mutex mutex_;
  std::deque<std::remove_pointer_t<Handle>> given_ SPILLWAY_GUARDED_BY(mutex_);
  std::unordered_map<Handle, std::shared_ptr<Object>> alive_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::capi
