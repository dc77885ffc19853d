// See staging_pool.h.
#include "platform/common/storage/staging_pool.h"

#include <cstdlib>

namespace spillway {

StagingPool::~StagingPool() {
  for (char* const buffer : free_) {
    std::free(buffer);  // NOLINT(*-no-malloc): direct I/O needs its alignment
  }
}

char* StagingPool::take() {
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      char* const buffer = free_.back();
      free_.pop_back();
      return buffer;
    }
  }
  return static_cast<char*>(std::aligned_alloc(kBlockBytes, kBlockBytes));
}

void StagingPool::give_back(char* buffer) {
  const MutexLock lock(mutex_);
  free_.push_back(buffer);
}

std::vector<char*> StagingPool::take_for(const std::vector<Bytes>& blocks_bytes,
                                         std::vector<char*>& buffers) {
  std::vector<char*> parts;
  Bytes used_bytes = kBlockBytes;  // of the last buffer
  for (const Bytes bytes : blocks_bytes) {
    if (used_bytes + bytes > kBlockBytes) {
      char* const buffer = take();
      if (buffer == nullptr) {
        return {};
      }
      buffers.push_back(buffer);
      used_bytes = 0;
    }
    parts.push_back(buffers.back() + used_bytes);
    used_bytes += round_up(bytes, kPageBytes);
  }
  return parts;
}

}  // namespace spillway
