// See device_blocks.h.
#include "platform/cuda/device_blocks.h"

#include <algorithm>
#include <utility>

namespace spillway::cuda {

CuResult DeviceBlocks::back(BlockId block, CuAddress address, Bytes bytes) {
  if (has(block)) {
    return CuResult::kSuccess;
  }
  Backed backed{.address = address, .bytes = bytes};
  const CuResult result = pool_->take(bytes, backed.handle);
  return result == CuResult::kSuccess ? map(block, backed) : result;
}

CuResult DeviceBlocks::back_on_host(BlockId block, CuAddress address, Bytes bytes) {
  if (has(block)) {
    return CuResult::kSuccess;
  }
  Backed backed{.address = address, .bytes = bytes, .on_host = true};
  const CuResult result = pool_->make_on_host(bytes, backed.handle);
  return result == CuResult::kSuccess ? map(block, backed) : result;
}

CuResult DeviceBlocks::map(BlockId block, const Backed& backed) {
  using What = WorkTimes::What;
  const CuResult result = pool_->times().of(What::kMap, [&] {
    return driver_->memory_map(backed.address, backed.bytes, 0, backed.handle, 0);
  });
  if (result != CuResult::kSuccess) {
    give_back(backed);
    return result;
  }
  if (block >= blocks_.size()) {
    blocks_.resize(std::max(block + std::size_t{1}, 2 * blocks_.size()));
  }
  blocks_[block] = backed;
  const CuAccessDescription all{.location = {.type = CuLocationType::kDevice, .id = device_},
                                .access = CuAccess::kReadWrite};
  const CuResult access = pool_->times().of(What::kAccess, [&] {
    return driver_->memory_set_access(backed.address, backed.bytes, &all, 1);
  });
  if (access != CuResult::kSuccess) {
    (void)drop(block);  // nobody may take it for memory that can be used
  }
  return access;
}

void DeviceBlocks::give_back(const Backed& backed) {
  if (backed.on_host) {
    (void)driver_->memory_release(backed.handle);
  } else {
    pool_->give_back(backed.handle, backed.bytes);
  }
}

CuResult DeviceBlocks::drop(BlockId block) {
  if (!has(block)) {
    return CuResult::kSuccess;
  }
  const Backed was = std::exchange(blocks_[block], {});
  const CuResult result = pool_->times().of(
      WorkTimes::What::kUnmap, [&] { return driver_->memory_unmap(was.address, was.bytes); });
  if (result == CuResult::kSuccess) {
    give_back(was);
  }
  return result;
}

CuResult DeviceBlocks::drop_all() {
  CuResult first = CuResult::kSuccess;
  for (BlockId block = 0; block < blocks_.size(); ++block) {
    const CuResult result = drop(block);
    first = first == CuResult::kSuccess ? result : first;
  }
  return first;
}

}  // namespace spillway::cuda
