// What a pending stream wait holds up on the fake driver: docs/gpu.md section 4, row by row.
#include <functional>

#include "platform/cuda/fake_device.h"

namespace spillway::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeStreamWaits : public FakeDevice {
 protected:
  // A stream wait is pending on a stream, or on the null stream; `call` is made by the program's
  // thread.
  void closed(bool null_stream) {
    gated = null_stream ? nullptr : stream();
    device_memory = memory(8 * kTwoMiB);
    host = pinned<char>(1 << 20U);
    pageable.resize(4 << 20U);
    gate = close(gated);
    ASSERT_TRUE(gate_reached());
  }
  // Makes the program's call, which must return while the stream wait is pending, or must not;
  // opens it.
  void expect(bool goes_on, const std::function<CuResult()>& call) {
    std::atomic<bool> returned = false;
    std::thread program([&] {
      driver.context_set_current(primary);
      EXPECT_EQ(call(), CuResult::kSuccess);
      returned = true;
    });
    if (goes_on) {
      EXPECT_TRUE(soon([&] { return returned.load(); }));
    } else {
      wait_until_nobody_calls();
      EXPECT_FALSE(returned);
    }
    open(gate);
    program.join();
  }
  // The same with a copy from another thread meanwhile, which must go on, or not.
  void expect_copy(bool goes_on, CuContext context, const std::function<CuResult()>& call) {
    std::thread program([&] {
      driver.context_set_current(primary);
      EXPECT_EQ(call(), CuResult::kSuccess);
    });
    wait_until_nobody_calls();
    std::atomic<bool> unmapped = false;
    std::atomic<bool> copied = false;
    std::thread opener([&] {
      driver.context_set_current(context);
      CuStream on = stream();
      EXPECT_EQ(driver.memory_unmap(spare, kTwoMiB), CuResult::kSuccess);
      unmapped = true;
      EXPECT_EQ(driver.copy_in(device_memory, host, 1 << 20U, on), CuResult::kSuccess);
      copied = true;
    });
    EXPECT_TRUE(soon([&] { return unmapped.load(); })) << "always goes on";
    if (goes_on) {
      EXPECT_TRUE(soon([&] { return copied.load(); }));
    } else {
      wait_until_nobody_calls();
      EXPECT_FALSE(copied);
    }
    open(gate);
    program.join();
    opener.join();
  }
  // Whoever called has returned, or waits.
  static void wait_until_nobody_calls() {
    for (std::uint64_t before = 0, now = 1; now != before; now = counters().calls) {
      before = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
  }

  CuStream gated = nullptr;
  CuAddress device_memory = 0;
  CuAddress spare = 0;
  char* host = nullptr;
  std::vector<char> pageable;
  std::uint64_t* gate = nullptr;
};

TEST_F(FakeStreamWaits, WhatGoesOn) {
  closed(false);
  expect(true, [this] {
    CuStream on = gated;
    CuEvent recorded = event();
    EXPECT_EQ(launch(test::kernels().fill, on, device_memory, 10, 1), CuResult::kSuccess);
    EXPECT_EQ(driver.event_record(recorded, on), CuResult::kSuccess);
    EXPECT_EQ(driver.event_query(recorded), CuResult::kNotReady);
    EXPECT_EQ(driver.copy_in(device_memory, host, 1 << 20U, on), CuResult::kSuccess);
    EXPECT_EQ(driver.copy_out(host, device_memory, 1 << 20U, on), CuResult::kSuccess);
    EXPECT_EQ(driver.copy_in(device_memory, pageable.data(), 60 << 10U, on), CuResult::kSuccess);
    EXPECT_EQ(driver.set_bytes(device_memory, 1, 100, on), CuResult::kSuccess);
    CuAddress plain = 0;
    EXPECT_EQ(driver.memory_alloc(&plain, 100), CuResult::kSuccess);
    const CuAddress mapped = memory();
    EXPECT_EQ(driver.memory_unmap(mapped, kTwoMiB), CuResult::kSuccess);
    EXPECT_EQ(driver.host_register(pageable.data(), pageable.size(), 0), CuResult::kSuccess);
    EXPECT_EQ(driver.stream_destroy(stream()), CuResult::kSuccess);
    return driver.event_destroy(recorded);
  });
  driver.context_synchronize();
}

TEST_F(FakeStreamWaits, WhatWaits) {
  const std::vector<std::function<CuResult()>> calls = {
      [this] { return driver.stream_synchronize(gated); },
      [this] { return driver.context_synchronize(); },
      [this] {
        CuEvent recorded = event();
        driver.event_record(recorded, gated);
        return driver.event_synchronize(recorded);
      },
      [this] { return driver.host_free(host); },
      [this] {
        driver.host_register(pageable.data(), pageable.size(), 0);
        return driver.host_unregister(pageable.data());
      },
      [this] {
        CuAddress plain = 0;
        driver.memory_alloc(&plain, 100);
        return driver.memory_free(plain);
      },
      [this] { return driver.copy_in(device_memory, pageable.data(), pageable.size(), gated); },
      [this] { return driver.copy_out(pageable.data(), device_memory, 4096, gated); },
      [this] {
        CuResult result = CuResult::kSuccess;
        for (unsigned i = 0; i <= config.launches_ahead && result == CuResult::kSuccess; ++i) {
          result = launch(test::kernels().fill, gated, device_memory, 1, 1);
        }
        return result;
      }};
  config.stuck_after_ns = 5'000'000'000;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    start();
    closed(false);
    SCOPED_TRACE(i);
    expect(false, calls[i]);
    driver.context_synchronize();
  }
}

TEST_F(FakeStreamWaits, WhatLocksTheContext) {
  struct Case {
    bool null_stream, locks;
    std::function<CuResult()> call;
  };
  const auto fill_queue = [this] {
    CuResult result = CuResult::kSuccess;
    for (unsigned i = 0; i <= config.launches_ahead && result == CuResult::kSuccess; ++i) {
      result = launch(test::kernels().fill, gated, device_memory + kTwoMiB, 1, 1);
    }
    return result;
  };
  const auto unregister = [this] {
    driver.host_register(pageable.data(), pageable.size(), 0);
    return driver.host_unregister(pageable.data());
  };
  const auto copy_pageable = [this] {
    return driver.copy_in(device_memory + kTwoMiB, pageable.data(), kTwoMiB, gated);
  };
  const std::vector<Case> cases = {
      {false, false, [this] { return driver.stream_synchronize(gated); }},
      {false, false, copy_pageable},
      {false, false, fill_queue},
      {false, true, unregister},
      {true, true, copy_pageable},
      {true, true, fill_queue},
  };
  config.stuck_after_ns = 5'000'000'000;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const bool second : {false, true}) {
      start();
      closed(cases[i].null_stream);
      spare = memory();
      const CuContext context = second ? second_context() : primary;
      driver.context_set_current(primary);
      SCOPED_TRACE(fmt::format("case {}{}", i, second ? ", second context" : ""));
      expect_copy(second || !cases[i].locks, context, cases[i].call);
      driver.context_synchronize();
    }
  }
}

TEST_F(FakeStreamWaits, WhoOpensGatesMustNotWaitForThem) {
  closed(false);
  CuEvent recorded = event();
  driver.event_record(recorded, gated);
  fake_cuda_thread_opens_gates(1);
  EXPECT_EQ(driver.stream_synchronize(gated), CuResult::kUnknown);
  EXPECT_EQ(driver.event_synchronize(recorded), CuResult::kUnknown);
  EXPECT_EQ(driver.context_synchronize(), CuResult::kUnknown);
  EXPECT_EQ(driver.host_free(host), CuResult::kUnknown);
  EXPECT_EQ(driver.copy_in(device_memory, pageable.data(), pageable.size(), gated),
            CuResult::kUnknown);
  EXPECT_EQ(take_violations().size(), 5U);
  // What does not wait for the stream wait is fine.
  CuStream other = stream();
  driver.copy_in(device_memory, host, 100, other);
  EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess);
  fake_cuda_thread_opens_gates(0);
  // A thread in a second context satisfies stream waits, whether it says so or not.
  second_context();
  EXPECT_EQ(driver.event_synchronize(recorded), CuResult::kUnknown);
  EXPECT_EQ(driver.host_unregister(pageable.data()), CuResult::kHostMemoryNotRegistered);
  CuStream mine = stream();
  driver.stream_wait_event(mine, recorded, 0);
  EXPECT_EQ(driver.stream_synchronize(mine), CuResult::kUnknown) << "it waits for what is gated";
  EXPECT_EQ(take_violations().size(), 3U);
  // A stream wait that a stream is going to open is not closed.
  CuStream opener = stream();
  fake_cuda_hold_stream(opener, 1);
  driver.stream_write_value(opener, address_of(gate), 1, 0);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fake_cuda_hold_stream(opener, 0);
  });
  EXPECT_EQ(driver.event_synchronize(recorded), CuResult::kSuccess);
  later.join();
}

TEST_F(FakeStreamWaits, AGateThatNobodyOpensIsReported) {
  closed(false);
  EXPECT_EQ(driver.stream_synchronize(gated), CuResult::kLaunchTimeout);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_STUCK));
  open(gate);
  EXPECT_EQ(driver.stream_synchronize(gated), CuResult::kSuccess);
}

TEST_F(FakeStreamWaits, AnOpenerInTheProgramsContextIsStuckBehindItsLock) {
  config.stuck_after_ns = 5'000'000'000;
  start();
  closed(false);
  std::thread program([this] {
    driver.context_set_current(primary);
    EXPECT_EQ(driver.host_free(pinned(1)), CuResult::kSuccess);
  });
  wait_until_nobody_calls();
  fake_cuda_thread_opens_gates(1);
  EXPECT_EQ(driver.copy_in(device_memory, host, 100, stream()), CuResult::kUnknown);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_WAITED_AT_GATE));
  open(gate);
  program.join();
}

TEST_F(FakeStreamWaits, AllConnectionsGatedHoldUpEveryOtherStream) {
  for (const int connections : {1, 2, 8}) {
    config.connections = connections;
    start();
    const CuAddress at = memory();
    char* from = pinned<char>(1 << 20U);
    std::vector<std::uint64_t*> gates;
    for (int i = 0; i + 1 < connections; ++i) {
      gates.push_back(close(stream()));
    }
    ASSERT_TRUE(gate_reached(gates.size()));
    CuStream other = stream();
    driver.set_bytes(at, 1, 100, other);
    EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess) << "one connection is left";
    gates.push_back(close(stream()));
    ASSERT_TRUE(gate_reached(gates.size()));
    EXPECT_EQ(driver.copy_in(at, from, 64 << 10U, other), CuResult::kSuccess);
    EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess) << "large copies go on";
    EXPECT_THAT(violations(), IsEmpty());
    driver.set_bytes(at, 1, 100, other);
    EXPECT_EQ(driver.stream_synchronize(other), CuResult::kLaunchTimeout);
    EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_TOO_MANY_GATES, FAKE_CUDA_STUCK));
    open(gates[0]);
    EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess);
    for (std::uint64_t* each : gates) {
      open(each);
    }
    driver.context_synchronize();
  }
}

}  // namespace
}  // namespace spillway::cuda
