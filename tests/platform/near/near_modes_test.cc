// The arbiter of the near device: who may use a channel, when that changes, and what kernels do
// meanwhile.
#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/sanitizers.h"
#include "platform/near/near_world.h"

namespace spillway::near::test {
namespace {

class NearModes : public NearWorld {
 protected:
  KernelTicket launch(std::uint32_t channel, std::unique_ptr<Kernel> kernel,
                      std::span<const Span> uses = {}) const {
    const Result<KernelTicket> ticket = device->launch(channel, std::move(kernel), uses);
    EXPECT_TRUE(ticket) << ticket.error().message;
    return ticket.value_or(KernelTicket{});
  }
};

TEST_F(NearModes, AChannelBeginsInNormalModeInWhichNoKernelRuns) {
  EXPECT_EQ(device->mode(0), Mode::kNormal);
  expect_refused(device->launch(0, std::make_unique<CallKernel>([] { return Status{}; }), {}),
                 ErrorCode::kMode, "channel 0 is in normal mode, in which no kernel runs");
  EXPECT_EQ(device->channel_statistics(0)->kernels, 0U);
  EXPECT_EQ(device->channel_statistics(0)->mode_switches, 0U);
}

TEST_F(NearModes, InAccelerationModeTheHostCannotTouchAChannel) {
  char* const near = near_memory(100);
  char* const other = near_memory(100, 1);
  std::array<char, 100> host{};
  accelerate(0);
  EXPECT_EQ(device->mode(0), Mode::kAcceleration);
  for (const Location location :
       {at_host(host.data()), at_near(other), at_storage(place(100)), at_gpu(gpu_memory(100))}) {
    expect_refused(device->copy(location, at_near(near), 100), ErrorCode::kMode,
                   "channel 0 is in acceleration mode");
    expect_refused(device->copy(at_near(near), location, 100), ErrorCode::kMode,
                   "channel 0 is in acceleration mode");
  }
  EXPECT_EQ(device->statistics().copies, 0U);
  // To give memory out and take it back touches none.
  char* const more = near_memory(100);
  EXPECT_TRUE(device->free(at_near(more)));
  normal(0);
  EXPECT_TRUE(device->copy(at_near(near), at_host(host.data()), 100));
  EXPECT_EQ(device->channel_statistics(0)->mode_switches, 2U);
  normal(0);
  EXPECT_EQ(device->channel_statistics(0)->mode_switches, 2U) << "it was in normal mode";
  expect_refused(device->set_mode(2, Mode::kNormal), ErrorCode::kInvalidInput, "there are 2");
  expect_refused(device->mode(2), ErrorCode::kInvalidInput, "there are 2");
}

TEST_F(NearModes, AModeStaysUntilTheKernelsHaveEnded) {
  accelerate(0);
  Latch first;
  Latch second;
  const KernelTicket one = launch(0, held_kernel(first));
  const KernelTicket two = launch(0, held_kernel(second));
  first.wait_until_reached();
  expect_refused(device->set_mode(0, Mode::kNormal), ErrorCode::kBusy,
                 "2 kernels have not ended; wait for them");
  EXPECT_EQ(device->poll(one), false);
  first.open();
  second.wait_until_reached();
  EXPECT_EQ(device->poll(one), true) << "they run one after the other";
  EXPECT_EQ(device->poll(two), false);
  EXPECT_FALSE(device->idle());
  expect_refused(device->set_mode(0, Mode::kNormal), ErrorCode::kBusy, "1 kernels");
  EXPECT_TRUE(device->set_mode(0, Mode::kAcceleration)) << "it is";
  second.open();
  EXPECT_TRUE(device->wait(two));
  EXPECT_TRUE(device->idle());
  normal(0);
  EXPECT_EQ(device->channel_statistics(0)->kernels, 2U);
  EXPECT_GT(device->channel_statistics(0)->kernel_ns, 0);
}

// One channel computes while the other is copied to.
TEST_F(NearModes, ChannelsAreIndependent) {
  std::array<char, 100> host{};
  char* const near = near_memory(100, 1);
  accelerate(0);
  Latch latch;
  const KernelTicket kernel = launch(0, held_kernel(latch));
  latch.wait_until_reached();
  EXPECT_TRUE(device->copy(at_near(near), at_host(host.data()), 100));
  accelerate(1);
  Latch beside;
  const KernelTicket other = launch(1, held_kernel(beside));
  beside.wait_until_reached();
  beside.open();
  EXPECT_TRUE(device->synchronize(1));
  EXPECT_EQ(device->poll(other), true);
  normal(1);
  EXPECT_TRUE(device->copy(at_host(host.data()), at_near(near), 100));
  EXPECT_EQ(device->poll(kernel), false);
  latch.open();
  EXPECT_TRUE(device->wait(kernel));
}

TEST_F(NearModes, WhatAKernelUsesIsNotFreed) {
  char* const near = near_memory(100);
  char* const unused = near_memory(100);
  const std::array<Span, 2> uses{{{address_of(near), 50}, {address_of(near + 60), 40}}};
  accelerate(0);
  Latch latch;
  const KernelTicket kernel = launch(0, held_kernel(latch), uses);
  expect_refused(device->free(at_near(near)), ErrorCode::kBusy, "a copy or a kernel uses");
  EXPECT_TRUE(device->free(at_near(unused)));
  latch.open();
  EXPECT_TRUE(device->wait(kernel));
  // A launch that is refused holds nothing of what it named.
  const std::array<Span, 2> wrong{{{address_of(near), 50}, {address_of(near + 60), 41}}};
  expect_refused(device->launch(0, held_kernel(latch), wrong), ErrorCode::kInvalidInput,
                 "beyond the end");
  EXPECT_TRUE(device->free(at_near(near)));
}

TEST_F(NearModes, AKernelsOutcomeIsTold) {
  accelerate(0);
  const KernelTicket fails = launch(0, std::make_unique<CallKernel>([]() -> Status {
                                      return make_error(ErrorCode::kIo, "no way on");
                                    }));
  const KernelTicket throws = launch(
      0, std::make_unique<CallKernel>([]() -> Status { throw std::runtime_error("something"); }));
  const KernelTicket works = launch(0, std::make_unique<CallKernel>([] { return Status{}; }));
  EXPECT_TRUE(device->wait(works));
  expect_refused(device->wait(fails), ErrorCode::kIo, "no way on");
  expect_refused(device->poll(fails), ErrorCode::kIo, "no way on");
  expect_refused(device->wait(throws), ErrorCode::kDefect, "has thrown: something");
  EXPECT_EQ(device->channel_statistics(0)->kernels, 3U);
  EXPECT_EQ(device->channel_statistics(0)->kernels_failed, 2U);
  expect_refused(device->wait({.channel = 0, .number = 4}), ErrorCode::kInvalidInput,
                 "no kernel with number 4");
  expect_refused(device->poll({.channel = 0, .number = 0}), ErrorCode::kInvalidInput,
                 "no kernel with number 0");
  expect_refused(device->wait({.channel = 7, .number = 1}), ErrorCode::kInvalidInput,
                 "no channel has the number 7");
}

TEST_F(NearModes, WaitingIsCounted) {
  accelerate(0);
  Latch latch;
  const KernelTicket kernel = launch(0, held_kernel(latch));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    latch.open();
  });
  EXPECT_TRUE(device->wait(kernel));
  opener.join();
  EXPECT_GE(device->channel_statistics(0)->waited_ns, 5 * kNsPerMs);
  EXPECT_EQ(device->channel_statistics(1)->waited_ns, 0);
}

// A device that goes lets its kernels end first, also those that have not begun.
TEST_F(NearModes, ADeviceEndsBehindItsKernels) {
  accelerate(0);
  Latch latch;
  (void)launch(0, held_kernel(latch));
  bool last = false;
  (void)launch(0, std::make_unique<CallKernel>([&] {
                 last = true;
                 return Status{};
               }));
  latch.wait_until_reached();
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    latch.open();
  });
  device.reset();
  opener.join();
  EXPECT_TRUE(last);
}

// The kernel sees what the host sees, at an address of its own, also while the host's is closed.
TEST_F(NearModes, KernelsReachMemoryThatIsClosedToTheHost) {
  options.check_access = true;
  start();
  char* const near = near_memory(100);
  *near = 'a';
  accelerate(0);
  char* const seen = device->as_kernel(0, address_of(near));
  const std::array<Span, 1> uses{{{address_of(near), 1}}};
  const KernelTicket kernel = launch(0, std::make_unique<CallKernel>([&] {
                                       *seen = *seen == 'a' ? 'b' : 'c';
                                       return Status{};
                                     }),
                                     uses);
  EXPECT_TRUE(device->wait(kernel));
  normal(0);
  EXPECT_EQ(*near, 'b');
}

// --- The check of accesses ----------------------------------------------------------------------

void near_handler_before(int /*signal*/) { std::_Exit(42); }

class NearAccess : public NearModes {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    options.check_access = true;
  }
  // What a program does wrong: it looks at its own memory.
  void touch(bool write) {
    start();
    volatile char* const near = near_memory(3 * kPageBytes, 1) + 5;
    *near = 'a';
    accelerate(0);
    EXPECT_EQ(*near, 'a');
    accelerate(1);
    if (write) {
      *near = 'b';
    } else {
      (void)*near;
    }
  }
};

constexpr const char* kToldOfChannel1 =
    "spillway: the host touches 0x[0-9a-f]+, which is byte 5 of channel 1 of the near memory, "
    "while that channel is in acceleration mode; wait for its kernels";

TEST_F(NearAccess, AnAccessInAccelerationModeEndsTheProcessWithALine) {
  EXPECT_DEATH(touch(false), kToldOfChannel1);
  EXPECT_DEATH(touch(true), kToldOfChannel1);
}

TEST_F(NearAccess, ThenWhoHandledTheSignalBeforeHandlesIt) {
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_handler = near_handler_before;
        ::sigaction(SIGSEGV, &action, nullptr);
        touch(false);
      },
      testing::ExitedWithCode(42), kToldOfChannel1);
}

TEST_F(NearAccess, OtherFaultsAreNotExplained) {
#if !SPILLWAY_ADDRESS_SANITIZER && !SPILLWAY_THREAD_SANITIZER
  EXPECT_EXIT(
      {
        start();
        ::raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "^$");
#endif
}

TEST_F(NearAccess, WithoutTheCheckAnAccessIsNotNoticed) {
  options.check_access = false;
  touch(true);
}

}  // namespace
}  // namespace spillway::near::test
