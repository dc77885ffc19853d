// What has been given out on storage and on the GPU, and by whom it is held. Layer: platform, near.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "platform/near/memory/allocations.h"
#include "platform/near/memory/gpu_memory.h"
#include "platform/near/memory/location.h"
#include "platform/near/memory/storage.h"

namespace spillway::near {

// Keeps an allocation from being freed while it lives.
class Hold {
 public:
  Hold() = default;
  Hold(Mutex* mutex, Allocations* allocations, Address allocation)
      : mutex_(mutex), allocations_(allocations), allocation_(allocation) {}
  Hold(Hold&& other) noexcept
      : mutex_(other.mutex_),
        allocations_(std::exchange(other.allocations_, nullptr)),
        allocation_(other.allocation_) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(mutex_, other.mutex_);
    std::swap(allocations_, other.allocations_);
    std::swap(allocation_, other.allocation_);
    return *this;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    if (allocations_ != nullptr) {
      const MutexLock lock(*mutex_);
      allocations_->release(allocation_);
    }
  }
  [[nodiscard]] Address allocation() const { return allocation_; }

 private:
  Mutex* mutex_ = nullptr;
  Allocations* allocations_ SPILLWAY_PT_GUARDED_BY(mutex_) = nullptr;
  Address allocation_ = 0;
};

// Places on storage have numbers like addresses, in a range that no number is given out of twice: a
// number that is gone stays unknown.
class StoragePlaces {
 public:
  explicit StoragePlaces(StorageIo::Wrap wrap) : wrap_(std::move(wrap)) {}

  // Its number, from 0 on. Errors are Storage::open's.
  Result<std::uint32_t> add_storage(const std::string& path, Bytes bytes);
  Result<Address> allocate(Bytes bytes, std::uint32_t storage);
  Status free(Address start);

  struct Place {
    Storage* storage = nullptr;
    std::uint64_t offset = 0;  // in its file
    Hold hold;
  };
  Result<Place> hold(Address first, Bytes bytes);
  [[nodiscard]] Bytes staged_bytes() const;

 private:
  struct Target {
    Storage* storage = nullptr;
    std::uint64_t offset = 0;
  };
  const StorageIo::Wrap wrap_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Storage>> storages_ SPILLWAY_GUARDED_BY(mutex_);
  Allocations allocations_ SPILLWAY_GUARDED_BY(mutex_){"storage"};
  std::map<Address, Target> targets_ SPILLWAY_GUARDED_BY(mutex_);  // by allocation
  Address next_ SPILLWAY_GUARDED_BY(mutex_) = kPageBytes;          // 0 is none's
};

// The GPU, opened when it is first wanted.
class GpuPlaces {
 public:
  using Open = std::function<Result<std::unique_ptr<GpuMemory>>()>;
  explicit GpuPlaces(Open open) : open_(std::move(open)) {}
  // Gives back what has not been.
  ~GpuPlaces();
  GpuPlaces(const GpuPlaces&) = delete;
  GpuPlaces& operator=(const GpuPlaces&) = delete;

  // The error of an attempt to open it stays.
  Result<GpuMemory*> gpu();
  Result<Address> allocate(Bytes bytes);
  Status free(Address start);
  // Addresses of which the program knows more than we do are held by nobody.
  Result<Hold> hold(Address first, Bytes bytes);

 private:
  Mutex mutex_;
  Open open_ SPILLWAY_GUARDED_BY(mutex_);
  Result<std::unique_ptr<GpuMemory>> gpu_ SPILLWAY_GUARDED_BY(mutex_){nullptr};
  bool tried_ SPILLWAY_GUARDED_BY(mutex_) = false;
  Allocations allocations_ SPILLWAY_GUARDED_BY(mutex_){"GPU memory"};
  std::vector<Address> given_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::near
