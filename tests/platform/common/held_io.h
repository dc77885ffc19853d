// A swap file's requests in the test's hands: each waits until the test answers it, with whatever
// bytes or error, in whatever order.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "platform/common/storage/block_io.h"
#include "platform/common/storage/storage_io.h"

namespace spillway {

// What has been asked for and not been answered yet, in order.
class HeldRequests {
 public:
  void add(IoRequest request) {
    {
      const std::scoped_lock lock(mutex_);
      held_.push_back(std::move(request));
    }
    added_.notify_all();
  }
  // Waits until there are so many.
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return held_.size() >= count; });
  }
  [[nodiscard]] std::size_t count() const {
    const std::scoped_lock lock(mutex_);
    return held_.size();
  }
  // Takes one of them over, by its place in the order.
  IoRequest take(std::size_t at) {
    const std::scoped_lock lock(mutex_);
    IoRequest request = std::move(held_[at]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
    return request;
  }
  // A read that succeeds gives bytes of this value.
  void answer(std::size_t at, int error, char value = 0) {
    const IoRequest request = take(at);
    if (error == 0 && !request.write) {
      std::memset(request.memory, value, request.bytes);
    }
    request.done(error);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::vector<IoRequest> held_;
};

class HeldIo final : public BlockIo {
 public:
  explicit HeldIo(HeldRequests& requests) : requests_(&requests) {}
  void submit(IoRequest request) override { requests_->add(std::move(request)); }

 private:
  HeldRequests* requests_;
};

inline StorageIo::Wrap held_by(HeldRequests& requests) {
  return [&requests](const std::unique_ptr<BlockIo>& /*real*/) {
    return std::make_unique<HeldIo>(requests);
  };
}

inline SwapFile test_swap_file() {
  Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 64 * kMiB);
  EXPECT_TRUE(file) << file.error().message;
  return std::move(*file);
}

}  // namespace spillway
