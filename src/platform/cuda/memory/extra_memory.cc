// See extra_memory.h.
#include "platform/cuda/memory/extra_memory.h"

namespace spillway::cuda {

CuAddress ExtraMemory::make(Bytes bytes) {
  const MutexLock lock(mutex_);
  Piece piece{.bytes = round_up(bytes, kGranule)};
  if (bytes_ + piece.bytes > kMostBytes) {
    return 0;
  }
  if (make(piece) != CuResult::kSuccess) {
    give_back(piece);
    return 0;
  }
  bytes_ += piece.bytes;
  pieces_.push_back(piece);
  return piece.address;
}

CuResult ExtraMemory::make(Piece& piece) const {
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {.type = CuLocationType::kDevice, .id = device_};
  const CuAccessDescription access{.location = properties.location, .access = CuAccess::kReadWrite};
  CuResult result = driver_.address_reserve(&piece.address, piece.bytes, kGranule, 0, 0);
  if (result == CuResult::kSuccess) {
    result = driver_.memory_create(&piece.handle, piece.bytes, &properties, 0);
  }
  if (result == CuResult::kSuccess) {
    result = driver_.memory_map(piece.address, piece.bytes, 0, piece.handle, 0);
    piece.mapped = result == CuResult::kSuccess;
  }
  return result == CuResult::kSuccess
             ? driver_.memory_set_access(piece.address, piece.bytes, &access, 1)
             : result;
}

void ExtraMemory::give_back(const Piece& piece) const {
  if (piece.mapped) {
    (void)driver_.memory_unmap(piece.address, piece.bytes);
  }
  if (piece.handle != 0) {
    (void)driver_.memory_release(piece.handle);
  }
  if (piece.address != 0) {
    (void)driver_.address_free(piece.address, piece.bytes);
  }
}

void ExtraMemory::give_back() {
  const MutexLock lock(mutex_);
  for (const Piece& piece : pieces_) {
    give_back(piece);
  }
  pieces_.clear();
  bytes_ = 0;
}

}  // namespace spillway::cuda
