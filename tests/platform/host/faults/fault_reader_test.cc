// Faults from the kernel into the queue: each one, with what was wanted, in time, while others
// come.
#include "platform/host/faults/fault_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "platform/common/process/clock.h"

namespace spillway::host {
namespace {

struct FaultWorld {
  static constexpr BlockId kBlocks = 32;

  FaultWorld() {
    ::madvise(addresses.base(), addresses.bytes(), MADV_NOHUGEPAGE);
    EXPECT_TRUE(userfault.watch(addresses.base(), addresses.bytes()));
  }
  // The next fault, which is waited for.
  FaultRecord next() {
    FaultRecord record;
    while (!reader->next(record)) {
      wake.wait_for(1'000'000'000);
    }
    return record;
  }
  // Whoever stopped there goes on; writes are seen unless `writable`.
  void answer(BlockId block, bool writable) {
    static const std::vector<char> page(kPageBytes, 1);
    char* const start = addresses.address_of(block);
    const int error = userfault.copy(start, page.data(), kPageBytes, writable);
    if (error == EEXIST && writable) {
      EXPECT_EQ(userfault.unprotect(start, kPageBytes), 0);
    }
    userfault.wake(start, kPageBytes);
  }

  UndisturbedMutex mutex;
  Space space;
  Userfault userfault{std::move(Userfault::open().value())};
  AddressSpace addresses{std::move(Reservation::make(kBlocks * kBlockBytes).value()), space};
  LowerPlaces places{kBlockBytes, 0};
  StagingPool staging;
  Failures failures{[](const Error&) {}};
  DevicePages pages{userfault, addresses, failures, kBlocks* kBlockBytes, false};
  WakeUp wake;
  ForkServer forks{{.mutex = mutex,
                    .userfault = userfault,
                    .addresses = addresses,
                    .pages = pages,
                    .places = places,
                    .host_memory = nullptr,
                    .storage = nullptr,
                    .staging = staging,
                    .failures = failures,
                    .warn = [](std::string_view) {}}};
  std::unique_ptr<FaultReader> reader =
      std::make_unique<FaultReader>(userfault, addresses, forks, wake);
};

class FaultReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection) {
      GTEST_SKIP() << support.reason;
    }
    world_ = std::make_unique<FaultWorld>();
  }
  std::unique_ptr<FaultWorld> world_;
};

TEST_F(FaultReaderTest, SaysWhatWasWantedWhere) {
  const TimeNs begin_ns = now_ns();
  std::thread program([&] {
    volatile char* const there = world_->addresses.address_of(7);
    EXPECT_EQ(there[5], 1);
    there[5] = 2;                          // it was to be read only
    *world_->addresses.address_of(9) = 3;  // it is not there
  });
  const FaultRecord read = world_->next();
  EXPECT_EQ(read.block, 7U);
  EXPECT_FALSE(read.write);
  EXPECT_GE(read.at_ns, begin_ns);
  EXPECT_LE(read.at_ns, now_ns());
  world_->answer(7, false);
  const FaultRecord first_write = world_->next();
  EXPECT_EQ(first_write.block, 7U);
  EXPECT_TRUE(first_write.write);
  world_->answer(7, true);
  const FaultRecord write = world_->next();
  EXPECT_EQ(write.block, 9U);
  EXPECT_TRUE(write.write);
  EXPECT_GE(write.at_ns, first_write.at_ns);
  world_->answer(9, true);
  program.join();
  FaultRecord none;
  EXPECT_FALSE(world_->reader->next(none));
  EXPECT_GT(world_->reader->processor_ns(), 0);
}

TEST_F(FaultReaderTest, NoThreadsFaultIsLost) {
  std::vector<std::thread> program;
  for (BlockId block = 0; block < FaultWorld::kBlocks; ++block) {
    program.emplace_back([&, block] {
      EXPECT_EQ(*static_cast<volatile char*>(world_->addresses.address_of(block)), 1);
    });
  }
  std::set<BlockId> seen;
  while (seen.size() < FaultWorld::kBlocks) {
    const FaultRecord record = world_->next();
    EXPECT_TRUE(seen.insert(record.block).second);
    world_->answer(record.block, false);
  }
  for (std::thread& thread : program) thread.join();
}

// Told in one go with a fork, before it and behind it. The kernel seldom does so, so it is not the
// kernel that tells.
TEST_F(FaultReaderTest, NoFaultBesideAForkIsLost) {
  std::array<int, 2> events{};
  ASSERT_EQ(::pipe2(events.data(), O_NONBLOCK | O_CLOEXEC), 0);
  const Userfault child = std::move(Userfault::open().value());
  const Userfault told = Userfault::of_child(events[0]);
  const auto fault = [&](BlockId block) {
    uffd_msg made{};
    made.event = UFFD_EVENT_PAGEFAULT;
    made.arg.pagefault.address =
        reinterpret_cast<std::uint64_t>(world_->addresses.address_of(block));  // NOLINT
    return made;
  };
  uffd_msg fork{};
  fork.event = UFFD_EVENT_FORK;
  fork.arg.fork.ufd = static_cast<std::uint32_t>(::dup(child.fd()));
  const std::array messages{fault(3), fork, fault(5)};
  ASSERT_EQ(::write(events[1], messages.data(), sizeof(messages)), ssize_t{sizeof(messages)});
  {
    FaultReader reader(told, world_->addresses, world_->forks, world_->wake);
    std::vector<BlockId> blocks;
    FaultRecord record;
    for (const TimeNs until_ns = now_ns() + 5 * kNsPerS;
         blocks.size() < 2 && now_ns() < until_ns;) {
      if (reader.next(record)) blocks.push_back(record.block);
    }
    EXPECT_THAT(blocks, ::testing::ElementsAre(3U, 5U));
  }
  ::close(events[1]);
}

// While somebody has stopped, as when a program ends in the middle of something.
TEST_F(FaultReaderTest, EndsWhenItIsToldTo) {
  std::thread program(
      [&] { EXPECT_EQ(*static_cast<volatile char*>(world_->addresses.address_of(3)), 1); });
  (void)world_->next();
  world_->reader.reset();
  world_->answer(3, false);
  program.join();
}

}  // namespace
}  // namespace spillway::host
