// Hands requests to the swap file, which may make the caller wait while too much is under way: so
// it is a thread of its own that does. Layer: platform, cuda. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <thread>

#include "base/mutex.h"
#include "platform/common/storage/storage_io.h"

namespace spillway::cuda {

class IoThread {
 public:
  // It must outlive this.
  explicit IoThread(StorageIo& storage);
  // Everything that was submitted has ended.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // As StorageIo::submit, but never waits.
  void submit(IoRequest request);

 private:
  void work();

  StorageIo* storage_;
  Mutex mutex_;
  std::condition_variable wanted_;
  std::deque<IoRequest> requests_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::cuda
