// A near device with a GPU that is ordinary memory, and kernels in the test's hands.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/near/device.h"

namespace spillway::near::test {

// Its addresses are of the process; it refuses what is not its own, and whatever `fails` says.
class FakeGpu final : public GpuMemory {
 public:
  struct Shared {
    std::mutex mutex;
    std::map<Address, std::unique_ptr<std::vector<char>>> blocks;
    int opened = 0;
    std::function<bool(Bytes)> fails;  // asked before each copy
  };
  explicit FakeGpu(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  Result<Address> allocate(Bytes bytes) override {
    const std::scoped_lock lock(shared_->mutex);
    auto block = std::make_unique<std::vector<char>>(bytes);
    const Address start = address_of(block->data());
    shared_->blocks.emplace(start, std::move(block));
    return start;
  }
  Status free(Address start) override {
    const std::scoped_lock lock(shared_->mutex);
    EXPECT_EQ(shared_->blocks.erase(start), 1U);
    return {};
  }
  Status copy_in(Address to, const void* from, Bytes bytes) override {
    return copy(pointer_to(to), static_cast<const char*>(from), bytes);
  }
  Status copy_out(void* to, Address from, Bytes bytes) override {
    return copy(static_cast<char*>(to), pointer_to(from), bytes);
  }
  Status copy_within(Address to, Address from, Bytes bytes) override {
    return copy(pointer_to(to), pointer_to(from), bytes);
  }

 private:
  Status copy(char* to, const char* from, Bytes bytes) {
    {
      const std::scoped_lock lock(shared_->mutex);
      if (shared_->fails && shared_->fails(bytes)) {
        return make_error(ErrorCode::kIo, "cuMemcpy: the fake GPU has been told to fail");
      }
    }
    std::memcpy(to, from, bytes);
    return {};
  }
  std::shared_ptr<Shared> shared_;
};

// A kernel that runs until the test lets it end, with the outcome that the test says.
class Latch {
 public:
  void open(Status outcome = {}) {
    {
      const std::scoped_lock lock(mutex_);
      open_ = true;
      outcome_ = std::move(outcome);
    }
    changed_.notify_all();
  }
  Status pass() {
    std::unique_lock lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return outcome_;
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool reached_ = false;
  Status outcome_;
};

class CallKernel final : public Kernel {
 public:
  explicit CallKernel(std::function<Status()> body) : body_(std::move(body)) {}
  Status run(std::span<std::byte> on_chip) override {
    EXPECT_EQ(on_chip.size(), kOnChipBytes);
    return body_();
  }

 private:
  std::function<Status()> body_;
};

inline std::unique_ptr<Kernel> held_kernel(Latch& latch) {
  return std::make_unique<CallKernel>([&latch] { return latch.pass(); });
}

class NearWorld : public ::testing::Test {
 protected:
  NearWorld() {
    options.channel_bytes = 8 * kMiB;
    options.open_gpu = [shared = gpu]() -> Result<std::unique_ptr<GpuMemory>> {
      ++shared->opened;
      return std::make_unique<FakeGpu>(shared);
    };
  }
  void SetUp() override { start(); }
  // Anew, with `options`, and storage of 64 MiB.
  void start() {
    device.reset();
    Result<std::unique_ptr<Device>> opened = Device::open(options);
    ASSERT_TRUE(opened) << opened.error().message;
    device = std::move(*opened);
    const Result<std::uint32_t> registered =
        device->register_storage(SPILLWAY_SOURCE_DIR, 64 * kMiB);
    ASSERT_TRUE(registered) << registered.error().message;
    storage = *registered;
  }
  char* near_memory(Bytes bytes, std::uint32_t channel = 0) const {
    const Result<char*> start = device->allocate(bytes, channel);
    EXPECT_TRUE(start) << start.error().message;
    return start.value_or(nullptr);
  }
  Address place(Bytes bytes) const {
    const Result<Address> start = device->allocate_on_storage(bytes, storage);
    EXPECT_TRUE(start) << start.error().message;
    return start.value_or(0);
  }
  Address gpu_memory(Bytes bytes) const {
    const Result<Address> start = device->allocate_on_gpu(bytes);
    EXPECT_TRUE(start) << start.error().message;
    return start.value_or(0);
  }
  void accelerate(std::uint32_t channel) const {
    const Status set = device->set_mode(channel, Mode::kAcceleration);
    EXPECT_TRUE(set) << set.error().message;
  }
  void normal(std::uint32_t channel) const {
    const Status set = device->set_mode(channel, Mode::kNormal);
    EXPECT_TRUE(set) << set.error().message;
  }

  std::shared_ptr<FakeGpu::Shared> gpu = std::make_shared<FakeGpu::Shared>();
  DeviceOptions options;
  std::unique_ptr<Device> device;
  std::uint32_t storage = 0;
};

// One line, with this code and these words.
template <typename T>
void expect_refused(const tl::expected<T, Error>& outcome, ErrorCode code, const char* words) {
  ASSERT_FALSE(outcome) << "not refused; expected: " << words;
  EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
  EXPECT_THAT(outcome.error().message, ::testing::HasSubstr(words));
  EXPECT_THAT(outcome.error().message, ::testing::Not(::testing::HasSubstr("\n")));
}

}  // namespace spillway::near::test
