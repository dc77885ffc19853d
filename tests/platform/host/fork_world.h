// What children of a fork are served from, without a platform: blocks that lie in host memory and
// in a swap file, put there by the test. Skips where forks are not reported.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "platform/common/process/wake_up.h"
#include "platform/common/storage/staging_pool.h"
#include "platform/host/faults/fault_reader.h"
#include "platform/host/fork/fork_server.h"

namespace spillway::host {

// ThreadSanitizer holds all threads up at a fork that it sees, also the one that the kernel waits
// for to read of the fork. Its locks are then as they were: a child may read, write and _exit.
inline pid_t fork_now() {
#if SPILLWAY_THREAD_SANITIZER
  return ::_Fork();
#else
  return ::fork();
#endif
}

class ForkWorld {
 public:
  static constexpr Bytes kBelowBytes = 16 * kMiB;

  ForkWorld() : server_(parent()), reader_(userfault_, addresses_, server_, wake_) {
    ::madvise(addresses_.base(), addresses_.bytes(), MADV_NOHUGEPAGE);
    EXPECT_TRUE(userfault_.watch(addresses_.base(), addresses_.bytes()));
  }

  // A block whose bytes are all `value` and lie in that tier alone; or a dead one.
  BlockId make_block(Tier tier, char value, Bytes bytes = kBlockBytes) {
    const BlockId id = space_.allocation(space_.allocate(bytes, 0).value()).first_block;
    Block& block = space_.block(id);
    block.contents = Contents::kLive;
    block.copies.add(tier);
    EXPECT_TRUE(places.take(id, tier, block.bytes));
    if (tier == Tier::kHost) {
      std::fill_n(host_memory_.start() + places.at(id, tier), block.bytes, value);
    } else {
      char* const buffer = staging_.take();
      std::fill_n(buffer, kBlockBytes, value);
      std::latch written(1);
      storage_.submit({.write = true,
                       .memory = buffer,
                       .bytes = block.bytes,
                       .offset = places.at(id, tier),
                       .done = [&](int error) {
                         EXPECT_EQ(error, 0);
                         written.count_down();
                       }});
      written.wait();
      staging_.give_back(buffer);
    }
    return id;
  }
  [[nodiscard]] Block& block(BlockId id) { return space_.block(id); }
  [[nodiscard]] char* start(BlockId id) const { return addresses_.address_of(id); }
  [[nodiscard]] bool holds(BlockId id, char value, Bytes bytes = kBlockBytes) const {
    return std::all_of(start(id), start(id) + bytes, [&](char one) { return one == value; });
  }

  // A child that ends with 0 if the body says true.
  pid_t fork(const std::function<bool()>& body) {
    const std::scoped_lock lock(mutex);
    server_.before_fork(space_);
    const pid_t child = fork_now();
    if (child == 0) {
      ::_exit(body() ? 0 : 1);
    }
    server_.after_fork();
    return child;
  }
  // A fork that comes to nothing.
  void try_to_fork() {
    const std::scoped_lock lock(mutex);
    server_.before_fork(space_);
    server_.after_fork();
  }
  // 0 if the child has said true.
  static int status_of(pid_t child) {
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }
  // A block's place is given up, as when it leaves the tier; whether it can be had by then.
  void give_up(BlockId id, Tier tier) {
    const std::scoped_lock lock(mutex);
    places.give_back(id, tier, space_.block(id).bytes);
  }
  [[nodiscard]] bool place_is_free(Tier tier) {
    const std::scoped_lock lock(mutex);
    const BlockId probe = 1000;
    const bool free = places.take(probe, tier, kBlockBytes);
    places.give_back(probe, tier, kBlockBytes);
    return free;
  }
  // The program's next fault, if there is one by now. It is the test's to answer.
  [[nodiscard]] bool next_fault(FaultRecord& record) { return reader_.next(record); }
  // Pages that are missing hold zeros now, and whoever stopped there goes on.
  void answer_with_zeros(char* from, Bytes bytes) const {
    for (char* page = from; page < from + bytes; page += kPageBytes) {
      EXPECT_THAT(userfault_.zero(page, kPageBytes), ::testing::AnyOf(0, EEXIST));
    }
    userfault_.wake(from, bytes);
  }

  [[nodiscard]] std::vector<std::string> failures() {
    const std::scoped_lock lock(told_mutex_);
    return told_;
  }

 private:
  ForkServer::Parent parent() {
    return {.mutex = mutex,
            .userfault = userfault_,
            .addresses = addresses_,
            .pages = pages_,
            .places = places,
            .host_memory = host_memory_.start(),
            .storage = &storage_,
            .staging = staging_,
            .failures = failures_,
            .warn = [](std::string_view) {}};
  }

 public:
  UndisturbedMutex mutex;  // the platform's
  LowerPlaces places{kBelowBytes, kBelowBytes};
  std::function<void()> on_failure = [] {};  // by the thread that has failed, which it may hold

 private:
  std::mutex told_mutex_;
  std::vector<std::string> told_;
  Failures failures_{[this](const Error& error) {
    {
      const std::scoped_lock lock(told_mutex_);
      told_.push_back(error.message);
    }
    on_failure();
  }};
  Space space_;
  Userfault userfault_{std::move(Userfault::open().value())};
  AddressSpace addresses_{std::move(Reservation::make(256 * kMiB).value()), space_};
  DevicePages pages_{userfault_, addresses_, failures_, 256 * kMiB, false};
  Reservation host_memory_{std::move(Reservation::make(kBelowBytes).value())};
  StorageIo storage_{std::move(SwapFile::open(SPILLWAY_SOURCE_DIR, kBelowBytes).value()), 4, {}};
  StagingPool staging_;
  WakeUp wake_;
  ForkServer server_;
  FaultReader reader_;
};

}  // namespace spillway::host
