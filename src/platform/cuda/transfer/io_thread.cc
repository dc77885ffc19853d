// See io_thread.h.
#include "platform/cuda/transfer/io_thread.h"

#include <utility>

#include "platform/common/process/service_thread.h"

namespace spillway::cuda {

IoThread::IoThread(StorageIo& storage)
    : storage_(&storage), thread_(service_thread("spw-cuda-io", [this] { work(); })) {}

IoThread::~IoThread() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void IoThread::submit(IoRequest request) {
  {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(std::move(request));
  }
  wanted_.notify_one();
}

void IoThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stop_ || !requests_.empty(); });
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
