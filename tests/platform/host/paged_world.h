// Pages of the device tier under real page faults, without a platform: a thread answers each fault
// as the test says, and notes it. Skips where userfaultfd is not to be had.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/host/pages/device_pages.h"
#include "platform/resident_pages.h"

namespace spillway::host {

class PagedWorld {
 public:
  PagedWorld(Bytes capacity_bytes, bool keep_frames)
      : pages_(userfault_, addresses_, failures_, capacity_bytes, keep_frames) {
    ::madvise(addresses_.base(), addresses_.bytes(), MADV_NOHUGEPAGE);
    EXPECT_TRUE(userfault_.watch(addresses_.base(), addresses_.bytes()));
    thread_ = std::thread([this] { answer_until_stopped(); });
  }
  ~PagedWorld() {
    stop_ = true;
    thread_.join();
  }
  PagedWorld(const PagedWorld&) = delete;
  PagedWorld& operator=(const PagedWorld&) = delete;

  // With the lock held: no fault is answered meanwhile.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  [[nodiscard]] DevicePages& pages() { return pages_; }
  [[nodiscard]] char* start(BlockId block) const { return addresses_.address_of(block); }
  // "read 3" or "write 3", since the last call.
  std::vector<std::string> faults() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(faults_, {});
  }
  std::vector<std::string> failures() {
    const std::scoped_lock lock(failures_mutex_);
    return told_;
  }
  // How many pages of the block are there.
  [[nodiscard]] std::size_t resident_pages(BlockId block) const {
    return spillway::resident_pages(start(block), kBlockBytes);
  }

 private:
  void answer_until_stopped() {
    while (!stop_) {
      pollfd wait{.fd = userfault_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, 5);
      std::array<uffd_msg, 8> events{};
      const std::size_t count = userfault_.read(events);
      const std::scoped_lock lock(mutex_);
      for (std::size_t i = 0; i < count; ++i) {
        if (events[i].event == UFFD_EVENT_PAGEFAULT) {
          answer(events[i].arg.pagefault.address, events[i].arg.pagefault.flags);
        }
      }
    }
  }
  // Whoever stops at a block gets it: zeros if it is not there, leave to write if that is wanted.
  void answer(std::uint64_t address, std::uint64_t flags) {
    const std::uint64_t offset =
        address - reinterpret_cast<std::uint64_t>(addresses_.base());  // NOLINT
    const auto block = static_cast<BlockId>(offset / kBlockBytes);
    const bool write = (flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)) != 0;
    faults_.push_back((write ? "write " : "read ") + std::to_string(block));
    if (!pages_.there(block)) {
      pages_.zero(block, kBlockBytes);
    }
    pages_.map(block, kBlockBytes, write);
    userfault_.wake(addresses_.address_of(block), kBlockBytes);
  }

  std::mutex failures_mutex_;
  std::vector<std::string> told_;
  Space space_;
  Userfault userfault_{std::move(Userfault::open().value())};
  AddressSpace addresses_{std::move(Reservation::make(128 * kMiB).value()), space_};
  Failures failures_{[this](const Error& error) {
    const std::scoped_lock lock(failures_mutex_);
    told_.push_back(error.message);
  }};
  std::mutex mutex_;
  std::vector<std::string> faults_;
  DevicePages pages_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace spillway::host
