// Which block has which handle, and where it is mapped, with access. Layer: platform, cuda.
// Why, it does not know. A handle backs one block, at the address that the block had when it was
// backed. The driver thread's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "platform/cuda/handle_pool.h"

namespace spillway::cuda {

class DeviceBlocks {
 public:
  // Both must outlive it.
  DeviceBlocks(const Driver& driver, HandlePool& pool, int device)
      : driver_(&driver), pool_(&pool), device_(device) {}

  // A handle of this size, mapped at the address, with access. kOutOfMemory as HandlePool::take,
  // and then nothing has changed; nothing happens if the block has one. Any other error is the
  // driver's.
  [[nodiscard]] CuResult back(BlockId block, CuAddress address, Bytes bytes);
  // The same with host memory, which the device reads over the link.
  [[nodiscard]] CuResult back_on_host(BlockId block, CuAddress address, Bytes bytes);
  // Unmapped; the handle goes back to the pool. Nothing happens if the block has none.
  [[nodiscard]] CuResult drop(BlockId block);
  [[nodiscard]] bool has(BlockId block) const {
    return block < blocks_.size() && blocks_[block].handle != 0;
  }
  // Of all blocks. Returns the first error.
  CuResult drop_all();

 private:
  struct Backed {
    CuMemHandle handle = 0;  // 0: none
    CuAddress address = 0;
    Bytes bytes = 0;
    bool on_host = false;
  };
  CuResult map(BlockId block, const Backed& backed);
  void give_back(const Backed& backed);

  const Driver* driver_;
  HandlePool* pool_;
  int device_;
  std::vector<Backed> blocks_;  // by number
};

}  // namespace spillway::cuda
