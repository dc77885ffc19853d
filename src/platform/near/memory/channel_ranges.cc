// See channel_ranges.h.
#include "platform/near/memory/channel_ranges.h"

#include <algorithm>

namespace spillway::near {

// --- Storage ------------------------------------------------------------------------------------

Result<std::uint32_t> StoragePlaces::add_storage(const std::string& path, Bytes bytes) {
  Result<std::unique_ptr<Storage>> storage = Storage::open(path, bytes, wrap_);
  if (!storage) {
    return tl::unexpected<Error>(storage.error());
  }
  const MutexLock lock(mutex_);
  storages_.push_back(std::move(*storage));
  return static_cast<std::uint32_t>(storages_.size() - 1);
}

Result<Address> StoragePlaces::allocate(Bytes bytes, std::uint32_t storage) {
  const MutexLock lock(mutex_);
  if (storage >= storages_.size()) {
    return make_error(ErrorCode::kInvalidInput,
                      "no storage has the number {}; {} have been registered", storage,
                      storages_.size());
  }
  const Result<std::uint64_t> offset = storages_[storage]->allocate(bytes);
  if (!offset) {
    return tl::unexpected<Error>(offset.error());
  }
  const Address start = next_;
  next_ += round_up(bytes, kPageBytes);
  allocations_.add(start, bytes);
  targets_.emplace(start, Target{.storage = storages_[storage].get(), .offset = *offset});
  return start;
}

Status StoragePlaces::free(Address start) {
  const MutexLock lock(mutex_);
  const Result<Bytes> bytes = allocations_.remove(start);
  if (!bytes) {
    return tl::unexpected<Error>(bytes.error());
  }
  const auto target = targets_.find(start);
  target->second.storage->free(target->second.offset, *bytes);
  targets_.erase(target);
  return {};
}

Result<StoragePlaces::Place> StoragePlaces::hold(Address first, Bytes bytes) {
  const MutexLock lock(mutex_);
  const Result<Address> start = allocations_.hold(first, bytes);
  if (!start) {
    return tl::unexpected<Error>(start.error());
  }
  const Target& target = targets_.at(*start);
  return Place{.storage = target.storage,
               .offset = target.offset + (first - *start),
               .hold = Hold(&mutex_, &allocations_, *start)};
}

Bytes StoragePlaces::staged_bytes() const {
  const MutexLock lock(mutex_);
  Bytes sum = 0;
  for (const std::unique_ptr<Storage>& storage : storages_) {
    sum += storage->staged_bytes();
  }
  return sum;
}

// --- GPU ----------------------------------------------------------------------------------------

GpuPlaces::~GpuPlaces() {
  for (const Address start : given_) {
    (void)(*gpu_)->free(start);
  }
}

Result<GpuMemory*> GpuPlaces::gpu() {
  const MutexLock lock(mutex_);
  if (!tried_) {
    tried_ = true;
    gpu_ = open_();
  }
  if (!gpu_) {
    return tl::unexpected<Error>(gpu_.error());
  }
  return gpu_->get();
}

Result<Address> GpuPlaces::allocate(Bytes bytes) {
  const Result<GpuMemory*> memory = gpu();
  if (!memory) {
    return tl::unexpected<Error>(memory.error());
  }
  Result<Address> start = (*memory)->allocate(bytes);
  if (start) {
    const MutexLock lock(mutex_);
    allocations_.add(*start, bytes);
    given_.push_back(*start);
  }
  return start;
}

Status GpuPlaces::free(Address start) {
  const MutexLock lock(mutex_);
  const Result<Bytes> bytes = allocations_.remove(start);
  if (!bytes) {
    return tl::unexpected<Error>(bytes.error());
  }
  given_.erase(std::find(given_.begin(), given_.end(), start));
  return (*gpu_)->free(start);
}

Result<Hold> GpuPlaces::hold(Address first, Bytes bytes) {
  const MutexLock lock(mutex_);
  if (!allocations_.has(first)) {
    return Hold();
  }
  const Result<Address> start = allocations_.hold(first, bytes);
  if (!start) {
    return tl::unexpected<Error>(start.error());
  }
  return Hold(&mutex_, &allocations_, *start);
}

}  // namespace spillway::near
