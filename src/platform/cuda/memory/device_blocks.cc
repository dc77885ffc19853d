// See device_blocks.h.
#include "platform/cuda/memory/device_blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/grown_at.h"

namespace spillway::cuda {

bool DeviceBlocks::has(BlockId block) const {
  const MutexLock lock(mutex_);
  return block < blocks_.size() && blocks_[block].handle != 0 && !blocks_[block].kept;
}

CuResult DeviceBlocks::back(BlockId block, CuAddress address, Bytes bytes) {
  Backed before;
  bool moves = false;
  {
    const MutexLock lock(mutex_);
    if (block < blocks_.size() && blocks_[block].handle != 0) {
      if (!blocks_[block].kept && blocks_[block].address != address) {
        moves = true;
      } else if (!blocks_[block].kept || take_back_locked(block)) {
        return CuResult::kSuccess;
      } else {
        before = forget(block);
      }
    }
  }
  if (moves) {
    return move(block, address);
  }
  if (before.handle != 0) {
    if (const CuResult unmapped = unmap(before); unmapped != CuResult::kSuccess) {
      return unmapped;
    }
  }
  Backed backed{.address = address, .bytes = bytes};
  const CuResult result = pool_->take(bytes, backed.handle);
  return result == CuResult::kSuccess ? map(block, backed) : result;
}

// Dead blocks may be mapped at the same handle; they stay.
CuResult DeviceBlocks::move(BlockId block, CuAddress address) {
  Backed backed;
  {
    const MutexLock lock(mutex_);
    backed = forget(block);
  }
  if (const CuResult unmapped = unmap(backed); unmapped != CuResult::kSuccess) {
    return unmapped;
  }
  backed.address = address;
  return map(block, backed);
}

CuResult DeviceBlocks::back_on_host(BlockId block, CuAddress address, Bytes bytes) {
  if (has(block)) {
    return CuResult::kSuccess;
  }
  // It may still be mapped at a handle that is another's.
  if (const CuResult dropped = drop(block); dropped != CuResult::kSuccess) {
    return dropped;
  }
  Backed backed{.address = address, .bytes = bytes, .on_host = true};
  const CuResult result = on_host_->take(bytes, backed.handle);
  return result == CuResult::kSuccess ? map(block, backed) : result;
}

CuResult DeviceBlocks::map(BlockId block, const Backed& backed) {
  using What = WorkTimes::What;
  const CuResult result = pool_->times().of(What::kMap, [&] {
    return driver_->memory_map(backed.address, backed.bytes, 0, backed.handle, 0);
  });
  if (result != CuResult::kSuccess) {
    (void)give_back(backed);
    return result;
  }
  {
    const MutexLock lock(mutex_);
    hold(block, backed);
  }
  const CuResult access = set_access(backed);
  if (access != CuResult::kSuccess) {
    (void)drop(block);  // nobody may take it for memory that can be used
  }
  return access;
}

CuResult DeviceBlocks::set_access(const Backed& backed) {
  return pool_->times().of(WorkTimes::What::kAccess, [&] {
    return driver_->memory_set_access(backed.address, backed.bytes, access_.data(), access_.size());
  });
}

// Also of what is dead: it may have its handle back without a call of the driver.
CuResult DeviceBlocks::share_with(int device) {
  give_access(device);
  std::vector<Backed> mapped;
  {
    const MutexLock lock(mutex_);
    std::copy_if(blocks_.begin(), blocks_.end(), std::back_inserter(mapped),
                 [](const Backed& it) { return it.handle != 0; });
  }
  for (const Backed& backed : mapped) {
    if (const CuResult result = set_access(backed); result != CuResult::kSuccess) {
      return result;
    }
  }
  return CuResult::kSuccess;
}

CuResult DeviceBlocks::give_back(const Backed& backed) {
  if (backed.on_host) {
    return on_host_->give_back(backed.handle, backed.bytes);
  }
  if (backed.lent) {
    return pool_->release(backed.handle, backed.bytes);
  }
  pool_->give_back(backed.handle, backed.bytes);
  return CuResult::kSuccess;
}

CuResult DeviceBlocks::unmap(const Backed& backed) {
  return pool_->times().of(WorkTimes::What::kUnmap,
                           [&] { return driver_->memory_unmap(backed.address, backed.bytes); });
}

CuResult DeviceBlocks::drop(BlockId block) {
  Backed was;
  {
    const MutexLock lock(mutex_);
    if (block >= blocks_.size() || blocks_[block].handle == 0) {
      return CuResult::kSuccess;
    }
    was = forget(block);
  }
  const CuResult result = unmap(was);
  return result == CuResult::kSuccess && !was.kept ? give_back(was) : result;
}

BlockId DeviceBlocks::end_of_blocks() const {
  const MutexLock lock(mutex_);
  return static_cast<BlockId>(blocks_.size());
}

CuResult DeviceBlocks::drop_all() {
  CuResult first = CuResult::kSuccess;
  for (BlockId block = 0; block < end_of_blocks(); ++block) {
    const CuResult result = drop(block);
    first = first == CuResult::kSuccess ? result : first;
  }
  return first;
}

// --- Blocks that are dead -----------------------------------------------------------------------

void DeviceBlocks::hold(BlockId block, const Backed& backed) {
  grown_at(blocks_, block) = backed;
  mapped_[backed.handle].holder = block;
}

DeviceBlocks::Backed DeviceBlocks::forget(BlockId block) {
  const Backed was = std::exchange(blocks_[block], {});
  const auto at = mapped_.find(was.handle);
  if (was.kept) {
    std::erase(at->second.kept, block);
  } else {
    at->second.holder = kNoBlock;
  }
  if (at->second.holder == kNoBlock && at->second.kept.empty()) {
    mapped_.erase(at);
  }
  return was;
}

bool DeviceBlocks::keep_mapped(BlockId block) {
  const MutexLock lock(mutex_);
  if (block >= blocks_.size()) {
    return false;
  }
  Backed& backed = blocks_[block];
  if (backed.handle == 0 || backed.on_host || backed.kept || backed.lent ||
      !pool_->put_back(backed.handle, backed.bytes)) {
    return false;
  }
  backed.kept = true;
  Mapped& at = mapped_.at(backed.handle);
  at.holder = kNoBlock;
  at.kept.push_back(block);
  return true;
}

bool DeviceBlocks::take_back(BlockId block) {
  const MutexLock lock(mutex_);
  return block < blocks_.size() && blocks_[block].kept && take_back_locked(block);
}

bool DeviceBlocks::take_back_locked(BlockId block) {
  Backed& backed = blocks_[block];
  if (!pool_->claim(backed.handle, backed.bytes)) {
    return false;
  }
  backed.kept = false;
  Mapped& at = mapped_.at(backed.handle);
  std::erase(at.kept, block);
  at.holder = block;
  return true;
}

CuMemHandle DeviceBlocks::lend(BlockId block) {
  const MutexLock lock(mutex_);
  if (block >= blocks_.size() || blocks_[block].on_host || blocks_[block].kept) {
    return 0;
  }
  blocks_[block].lent = blocks_[block].handle != 0;
  return blocks_[block].handle;
}

BlockId DeviceBlocks::holder_of(BlockId block) const {
  const MutexLock lock(mutex_);
  return block < blocks_.size() && blocks_[block].kept ? mapped_.at(blocks_[block].handle).holder
                                                       : kNoBlock;
}

// The handle is nobody's: it has just left the pool.
CuResult DeviceBlocks::unmap_kept(CuMemHandle handle) {
  std::vector<Backed> all;
  {
    const MutexLock lock(mutex_);
    if (const auto at = mapped_.find(handle); at != mapped_.end()) {
      const std::vector<BlockId> blocks = at->second.kept;
      for (const BlockId block : blocks) {
        all.push_back(forget(block));
      }
    }
  }
  CuResult first = CuResult::kSuccess;
  for (const Backed& backed : all) {
    const CuResult result = unmap(backed);
    first = first == CuResult::kSuccess ? result : first;
  }
  return first;
}

}  // namespace spillway::cuda
