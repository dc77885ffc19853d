// See io_thread.h.
#include "platform/cuda/transfer/io_thread.h"

#include <utility>

#include "platform/common/process/service_thread.h"

namespace spillway::cuda {

IoThread::IoThread(StorageIo& storage)
    : storage_(&storage), thread_(service_thread("spw-cuda-io", [this] { work(); })) {}

IoThread::~IoThread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void IoThread::submit(IoRequest request) {
  {
    const MutexLock lock(mutex_);
    requests_.push_back(std::move(request));
  }
  wanted_.notify_one();
}

void IoThread::work() {
  MutexLock lock(mutex_);
  while (true) {
    mutex_.wait(wanted_,
                [this]() SPILLWAY_REQUIRES(mutex_) { return stop_ || !requests_.empty(); });
    if (requests_.empty()) {
      return;
    }
    IoRequest request = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    storage_->submit(std::move(request));
    lock.lock();
  }
}

}  // namespace spillway::cuda
