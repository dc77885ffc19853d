// Memory that blocks from storage arrive in before their pages appear. Layer: platform, common.
// Never makes anybody wait: who gives buffers back may be the one who asks for the next. As many
// are made as transfers are under way at once. Thread-safe.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "base/units.h"

namespace spillway {

class StagingPool {
 public:
  StagingPool() = default;
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // kBlockBytes, aligned for direct I/O. nullptr if the system has no memory.
  [[nodiscard]] char* take();
  void give_back(char* buffer);

  // Parts of as few buffers as hold them all; the buffers are added to `buffers`. An empty answer
  // if the system has no memory.
  [[nodiscard]] std::vector<char*> take_for(const std::vector<Bytes>& blocks_bytes,
                                            std::vector<char*>& buffers);

 private:
  Mutex mutex_;
  std::vector<char*> free_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
