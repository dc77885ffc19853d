// Which block has which handle, and where it is mapped, with access. Layer: platform, cuda.
// Why, it does not know. A handle backs one block, at the address that the block had when it was
// backed.
// A dead block can leave its handle to others and stay mapped: a handle may be mapped at any number
// of addresses (docs/gpu.md section 5), and nobody uses those of what is dead. If the handle is
// free when the block is wanted again, the block has it back without a call of the driver; a
// program that does the same in every step then needs none, however little more than its peak it
// is given.
// The driver thread's, but for what says so.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "platform/cuda/memory/handle_pool.h"
#include "platform/cuda/memory/host_handles.h"

namespace spillway::cuda {

class DeviceBlocks {
 public:
  // All must outlive it.
  DeviceBlocks(const Driver& driver, HandlePool& pool, HostHandles& on_host, int device)
      : driver_(&driver), pool_(&pool), on_host_(&on_host) {
    give_access(device);
    pool.before_release([this](CuMemHandle handle) { return unmap_kept(handle); });
  }
  ~DeviceBlocks() { pool_->before_release({}); }
  DeviceBlocks(const DeviceBlocks&) = delete;
  DeviceBlocks& operator=(const DeviceBlocks&) = delete;

  // A handle of this size, mapped at the address, with access. kOutOfMemory as HandlePool::take,
  // and then nothing has changed; nothing happens if the block has one there. One that is mapped
  // elsewhere moves. Any other error is the driver's.
  [[nodiscard]] CuResult back(BlockId block, CuAddress address, Bytes bytes);
  // The same with host memory, which the device reads over the link.
  [[nodiscard]] CuResult back_on_host(BlockId block, CuAddress address, Bytes bytes);
  // Unmapped; the handle goes back to the pool. Nothing happens if the block has none and is mapped
  // nowhere.
  [[nodiscard]] CuResult drop(BlockId block);
  [[nodiscard]] bool has(BlockId block) const;
  // Of all blocks. Returns the first error.
  CuResult drop_all();
  // Another device, which can, has access to all that is mapped and will be. Returns the first
  // error.
  [[nodiscard]] CuResult share_with(int device);

  // Any thread's, of a block for which nothing is on order. Neither makes a call of the driver.
  // The block is dead: its handle goes back to the pool, and stays mapped. False if it had better
  // be dropped.
  [[nodiscard]] bool keep_mapped(BlockId block);
  // It is to live again: true if it has the handle back at which it is still mapped.
  [[nodiscard]] bool take_back(BlockId block);
  // Its handle, for others than we to have: nobody gets it after this block. 0 if it has none of
  // the device's. Any thread's; the caller sees to it that the block is not dropped meanwhile.
  [[nodiscard]] CuMemHandle lend(BlockId block);
  // Who has the handle at which this block is still mapped; kNoBlock if it is mapped nowhere or
  // nobody has it.
  [[nodiscard]] BlockId holder_of(BlockId block) const;

 private:
  struct Backed {
    CuMemHandle handle = 0;  // 0: none
    CuAddress address = 0;
    Bytes bytes = 0;
    bool on_host = false;
    bool kept = false;  // mapped still, but the handle may be another's
    bool lent = false;  // others than we may have its memory
  };
  struct Mapped {
    BlockId holder = kNoBlock;
    std::vector<BlockId> kept;  // blocks that are mapped at it and do not have it
  };
  [[nodiscard]] BlockId end_of_blocks() const;
  [[nodiscard]] bool take_back_locked(BlockId block) SPILLWAY_REQUIRES(mutex_);
  void hold(BlockId block, const Backed& backed) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Backed forget(BlockId block) SPILLWAY_REQUIRES(mutex_);

  void give_access(int device) {
    access_.push_back({.location = {.type = CuLocationType::kDevice, .id = device},
                       .access = CuAccess::kReadWrite});
  }
  CuResult set_access(const Backed& backed);
  CuResult map(BlockId block, const Backed& backed);
  CuResult move(BlockId block, CuAddress address);
  CuResult give_back(const Backed& backed);
  CuResult unmap(const Backed& backed);
  CuResult unmap_kept(CuMemHandle handle);

  const Driver* driver_;
  HandlePool* pool_;
  HostHandles* on_host_;
  std::vector<CuAccessDescription> access_;  // who has it
  mutable Mutex mutex_;                      // none of the driver's calls is made under it
  std::vector<Backed> blocks_ SPILLWAY_GUARDED_BY(mutex_);  // by number
  std::unordered_map<CuMemHandle, Mapped> mapped_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::cuda
