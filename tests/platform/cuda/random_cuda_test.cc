// A seeded random program on the CUDA platform: one or two threads with several streams each,
// events between them, memory that comes and goes and dies in flight, copies and memsets, budgets
// that change; through host memory and a swap file, with refusals and delays of everything that may
// refuse or take long. Every kernel checks the pattern that it finds and writes another, or the
// same; some are known to make one buffer of nothing or of another. SPILLWAY_SEED replays one seed.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "base/rng.h"
#include "base/sanitizers.h"
#include "engine/memory/space.h"
#include "platform/cuda/fake_cufile/fake_cufile.h"
#include "platform/cuda/recompute/recomputing.h"
#include "platform/cuda/remaking_world.h"
#include "policy/lookahead.h"
#include "policy/registry.h"

namespace spillway::cuda {
namespace {

constexpr std::uint64_t kMostWords = 5 * kMiB / 8;
#if SPILLWAY_THREAD_SANITIZER
constexpr std::uint64_t kSeeds = 3;
constexpr int kActions = 300;
constexpr bool kMeetsEverything = false;  // which so few actions need not
#elif SPILLWAY_ADDRESS_SANITIZER
constexpr std::uint64_t kSeeds = 3;
constexpr int kActions = 400;
constexpr bool kMeetsEverything = true;
#else
constexpr std::uint64_t kSeeds = 6;
constexpr int kActions = 400;
constexpr bool kMeetsEverything = true;
#endif
constexpr Bytes kMostBudget = 28 * kMiB;

// Refuses some requests, as a bad disk would; those do not reach the file.
class RefusingIo final : public BlockIo {
 public:
  RefusingIo(std::unique_ptr<BlockIo> real, double rate, std::uint64_t seed)
      : real_(std::move(real)), rate_(rate), rng_(seed) {}
  void submit(IoRequest request) override {
    bool refuse = false;
    {
      const std::scoped_lock lock(mutex_);
      refuse = rng_.chance(rate_);
    }
    if (refuse) {
      request.done(EIO);
    } else {
      real_->submit(std::move(request));
    }
  }

 private:
  std::unique_ptr<BlockIo> real_;
  double rate_;
  std::mutex mutex_;
  Rng rng_;
};

// Lookahead, and gives up whatever there is and has whatever can be used over the link, or no more,
// at any time.
class GivesUpAtRandom final : public Policy {
 public:
  GivesUpAtRandom(std::uint64_t seed, std::uint64_t& times, std::uint64_t& host_mapped)
      : rng_(seed), times_(times), host_mapped_(host_mapped) {}
  [[nodiscard]] std::string_view name() const override { return "gives up at random"; }
  [[nodiscard]] LaunchWindow window() const override { return lookahead_.window(); }
  [[nodiscard]] bool recomputes() const override { return true; }
  void on_give_up(AllocationId id) override { lookahead_.on_give_up(id); }
  void on_death_said(AllocationId id) override { lookahead_.on_death_said(id); }
  void on_issue(const Launch& launch, Control& control) override {
    give_up_some(control);
    lookahead_.on_issue(launch, control);
  }
  void on_launch(const Launch& launch, Control& control) override {
    lookahead_.on_launch(launch, control);
    give_up_some(control);
  }
  void on_launch_end(const Launch& launch, Control& control) override {
    lookahead_.on_launch_end(launch, control);
    give_up_some(control);
  }
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override {
    return lookahead_.select_victim(cause, incoming, control);
  }
  std::optional<BlockId> select_clean_victim(Cause cause, const Control& control) override {
    return lookahead_.select_clean_victim(cause, control);
  }

 private:
  void give_up_some(Control& control) {
    constexpr std::uint64_t kAllocations = 100;
    times_ += control.give_up(static_cast<AllocationId>(rng_.below(kAllocations))) ? 1U : 0U;
    if (const BlockId oldest = control.oldest_recomputable();
        oldest != kNoBlock && rng_.chance(0.7)) {
      times_ += control.give_up(control.space().block(oldest).allocation) ? 1U : 0U;
    }
    const auto block = static_cast<BlockId>(rng_.below(control.space().block_slots() + 1));
    if (rng_.chance(0.5)) {
      host_mapped_ += control.set_host_mapped(block) ? 1U : 0U;
    } else {
      control.clear_host_mapped(block);
    }
  }

  Lookahead lookahead_;
  Rng rng_;
  std::uint64_t& times_;
  std::uint64_t& host_mapped_;
};

class RandomCuda : public RemakingWorld, public ::testing::WithParamInterface<std::string_view> {
 protected:
  // What one thread of the program has.
  struct Thread {
    explicit Thread(std::uint64_t seed) : rng(seed) {}
    struct Memory {
      Buffer buffer;
      bool known = false;    // holds its pattern
      std::size_t last = 0;  // stream
    };
    Rng rng;
    std::vector<CuStream> streams;
    std::vector<CuEvent> events;
    std::vector<Memory> memory;
    std::uint64_t* host = nullptr;
    std::uint64_t next_seed = 0;
    Bytes live_bytes = 0;
    Bytes most_live_bytes = 0;
  };
  std::unique_ptr<Policy> policy;
  std::uint64_t given_up_at_random = 0;  // allocations
  std::uint64_t far_at_random = 0;       // blocks
  bool two_threads = false;
  double host_memory_fails = 0;  // once the program has what it needs itself

  void set_up(std::uint64_t seed) {
    Rng rng(seed);
    config.host_memory_fails = host_memory_fails = 0;
    config.seed = seed;
    config.device_bytes = 2 * config.context_bytes + 256 * kMiB;
    if (rng.chance(0.7)) {
      config.create_fails = config.copy_refused = config.copy_slow = config.stream_stands = 0.03;
      config.access_fails = 0.02;
      host_memory_fails = 0.1;
      config.slow_ns = 300'000;
      config.launch_ns = static_cast<std::int64_t>(rng.below(100'000));
      config.copy_bytes_per_s = rng.chance(0.5) ? 2e9 : 0;
    }
    options.device_bytes = kMostBudget;
    options.host_bytes = 24 * kMiB;
    options.block_bytes = rng.chance(0.5) ? 4 * kMiB : 2 * kMiB;
    options.pinned_piece_bytes = 4 * kMiB;
    options.waiting_streams = 1 + static_cast<unsigned>(rng.below(7));
    config.connections = static_cast<int>(options.waiting_streams) + 1;
    options.reclaim_discarded_first = rng.chance(0.5);
    options.launches_ahead = rng.chance(0.3) ? 5 : 600;
    options.shared_wait_part = rng.chance(0.5) ? 2 : 16;
    options.bypass_after = 1 + rng.below(20);
    options.bypass_after_at_most = options.bypass_after;
    const double refused = config.copy_refused;
    options.wrap_io = [seed, refused](std::unique_ptr<BlockIo> real) {
      return std::make_unique<RefusingIo>(std::move(real), refused, seed);
    };
  }

  void run(std::uint64_t seed, std::size_t threads) {
    two_threads = threads > 1;
    std::vector<std::unique_ptr<Thread>> all;
    for (std::size_t i = 0; i < threads; ++i) {
      all.push_back(std::make_unique<Thread>(seed * 100 + i));
      Thread& it = *all.back();
      it.next_seed = 1'000'000 * (i + 1);
      it.host = pinned(kMostWords);
      for (int k = 0; k < 3; ++k) {
        CuStream made = nullptr;
        const unsigned flags =
            threads > 1 || it.rng.chance(0.7) ? kCuStreamNonBlocking : kCuStreamDefault;
        ASSERT_EQ(driver.stream_create(&made, flags, 0), CuResult::kSuccess);
        it.streams.push_back(made);
        it.events.push_back(event());
      }
      if (threads == 1) {
        it.streams.push_back(nullptr);
        it.events.push_back(event());
      }
    }
    config.host_memory_fails = host_memory_fails;
    fake_cuda_change(&config);
    std::vector<std::thread> running;
    for (std::size_t i = 1; i < threads; ++i) {
      running.emplace_back([this, &all, i] {
        (void)driver.context_set_current(primary);
        run_thread(*all[i], false);
      });
    }
    run_thread(*all[0], true);
    for (std::thread& it : running) {
      it.join();
    }
    platform->wait_until_idle();
    whole();
  }

  void run_with_policy(std::uint64_t seed) {
    const PolicyInfo& info = **find_policy(GetParam());
    const auto make = info.make_with_queue != nullptr ? info.make_with_queue : info.make;
    policy = std::move(*make(Trace{}, Machine{}, {}));
    if (policy->recomputes() && seed / 2 % 2 == 1) {
      policy = std::make_unique<GivesUpAtRandom>(seed, given_up_at_random, far_at_random);
    }
    open(*policy, 96 * kMiB);
    run(seed, 1 + seed % 2);
    EXPECT_EQ(wrong_words(), 0U);
  }

  void end_and_check() {
    platform.reset();
    EXPECT_EQ(counters().handles + counters().mappings + counters().reservations, 0U);
    EXPECT_LE(counters().peak_handle_bytes, kMostBudget);
    EXPECT_THAT(violations(), ::testing::IsEmpty());
    EXPECT_THAT(fatal, ::testing::IsEmpty());
  }

  void run_thread(Thread& thread, bool changes_budgets) {
    // At first everything fits, in the smallest of the budgets.
    thread.most_live_bytes = (kMostBudget - 12 * kMiB) / (two_threads ? 2 : 1) - kMostWords * 8;
    for (int i = 0; i < kActions && wrong_words() == 0; ++i) {
      if (i == kActions / 2) {
        thread.most_live_bytes = 36 * kMiB;
      }
      act(thread, changes_budgets);
    }
    for (std::size_t i = 0; i < thread.memory.size(); ++i) {
      Thread::Memory& it = thread.memory[i];
      const CuStream on = ordered(thread, it, 0);
      if (it.known) {
        check(on, it.buffer);
      }
    }
    for (const CuStream on : thread.streams) {
      synchronize(on);
    }
  }

  // The stream, behind what has used the memory before.
  CuStream ordered(Thread& thread, Thread::Memory& memory, std::size_t on) const {
    if (memory.last != on) {
      const CuEvent done = thread.events[memory.last];
      const CuStream before = thread.streams[memory.last];
      EXPECT_EQ(driver.event_record(done, before), CuResult::kSuccess);
      platform->streams().recorded(done, before);
      EXPECT_EQ(driver.stream_wait_event(thread.streams[on], done, 0), CuResult::kSuccess);
      platform->streams().waits_for(done, thread.streams[on]);
      memory.last = on;
    }
    return thread.streams[on];
  }

  void act(Thread& thread, bool changes_budgets) {
    Rng& rng = thread.rng;
    const std::uint64_t what = rng.below(100);
    if (thread.memory.empty() || (what < 12 && thread.live_bytes < thread.most_live_bytes)) {
      return make_memory(thread);
    }
    const std::size_t which = rng.below(thread.memory.size());
    Thread::Memory& memory = thread.memory[which];
    const std::size_t stream = rng.below(thread.streams.size());
    if (what < 20) {
      if (!platform->memory().undo_allocate(memory.buffer.address)) {
        platform->memory().free(memory.buffer.address);
      }
      thread.live_bytes -= memory.buffer.bytes();
      thread.memory.erase(thread.memory.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (what < 26) {
      platform->memory().retire(memory.buffer.address, std::nullopt);
      const Status again = platform->memory().reuse(memory.buffer.address);
      EXPECT_TRUE(again);
      memory.known = false;
    } else if (what < 30) {
      synchronize(thread.streams[stream]);
    } else if (what < 32 && changes_budgets) {
      const Status set = platform->set_device_capacity(kMostBudget - 2 * kMiB * rng.below(7));
      // What the other thread issues meanwhile may be in the way.
      EXPECT_TRUE(set || two_threads) << set.error().message;
    } else if (what < 34) {
      whole();
    } else if (what < 42) {
      copy(thread, memory, stream);
    } else if (what < 86) {
      use(thread, memory, stream);
    } else if (what < 94) {
      make_and_read(thread, memory, stream);
    } else {
      // One stream's in a row, as programs have them.
      for (std::uint64_t left = rng.below(12); left > 0; --left) {
        use(thread, thread.memory[rng.below(thread.memory.size())], stream);
      }
    }
  }

  void make_memory(Thread& thread) {
    const bool small = thread.rng.chance(0.3);
    const std::uint64_t words = 1 + thread.rng.below(small ? 20'000 : kMostWords);
    const Buffer buffer = allocate(8 * words);
    if (buffer.address != 0 && thread.rng.chance(0.2)) {
      const bool may_undo = buffer.bytes() >= kBlockBytes;
      const bool undone = platform->memory().undo_allocate(buffer.address);
      EXPECT_TRUE(undone == may_undo || (two_threads && !undone));
      if (undone) {
        return;
      }
    }
    if (buffer.address != 0) {
      thread.memory.push_back({.buffer = buffer, .known = false, .last = 0});
      thread.live_bytes += buffer.bytes();
    }
  }

  void use(Thread& thread, Thread::Memory& memory, std::size_t stream) {
    const CuStream on = ordered(thread, memory, stream);
    if (!memory.known) {
      make_contents(thread, memory, stream);
      memory.known = true;
    } else if (thread.rng.chance(0.3)) {
      check(on, memory.buffer);
    } else {
      // It also names memory that it does not touch.
      const Thread::Memory& other = thread.memory[thread.rng.below(thread.memory.size())];
      const std::array<CudaOperand, 2> operands = {
          operand(memory.buffer,
                  thread.rng.chance(0.5) ? AccessMode::kReadWrite : AccessMode::kWrite),
          operand(other.buffer, AccessMode::kRead)};
      Buffer& buffer = memory.buffer;
      const std::uint64_t seed = thread.rng.chance(0.4) ? buffer.seed : ++thread.next_seed;
      EXPECT_EQ(issue(on, operands, "rewrite", false,
                      [&] {
                        return launch(test::kernels().rewrite, on, buffer.address, buffer.words,
                                      buffer.seed, seed, address_of(wrong));
                      }),
                CuResult::kSuccess);
      buffer.seed = seed;
    }
  }

  // On one stream, by kernels of which one is known: what has been made so may be given up.
  void make_and_read(Thread& thread, Thread::Memory& memory, std::size_t stream) {
    platform->memory().retire(memory.buffer.address, std::nullopt);
    EXPECT_TRUE(platform->memory().reuse(memory.buffer.address));
    memory.known = false;
    make_contents(thread, memory, stream);
    memory.known = true;
    RemakingWorld::use(thread.streams[stream], memory.buffer);
    // So many that it is compared, or not yet.
    const std::uint64_t on_stream =
        thread.rng.chance(0.5) ? Recomputing::kLaunchesBetween + 1 : std::uint64_t{1};
    for (std::uint64_t i = 0; i <= on_stream; ++i) {
      Thread::Memory& other = thread.memory[thread.rng.below(thread.memory.size())];
      if (&other != &memory) {
        use(thread, other, i < on_stream ? stream : thread.rng.below(thread.streams.size()));
      }
    }
  }

  void make_contents(Thread& thread, Thread::Memory& memory, std::size_t stream) {
    const CuStream on = ordered(thread, memory, stream);
    Thread::Memory& source = thread.memory[thread.rng.below(thread.memory.size())];
    const std::uint64_t seed = ++thread.next_seed;
    if (thread.rng.chance(0.4)) {
      fill(on, memory.buffer, seed);
    } else if (source.known && source.buffer.words >= memory.buffer.words) {
      ordered(thread, source, stream);
      derive(on, memory.buffer, source.buffer, seed);
    } else {
      make(on, memory.buffer, seed);
    }
  }

  // Out and compared, or in; and what the driver refuses by chance is done again.
  void copy(Thread& thread, Thread::Memory& memory, std::size_t stream) {
    const Buffer& buffer = memory.buffer;
    const CuStream on = ordered(thread, memory, stream);
    const bool out = memory.known && thread.rng.chance(0.5);
    const CudaOperand it = operand(buffer, out ? AccessMode::kRead : AccessMode::kOverwrite);
    const std::uint64_t seed = out ? buffer.seed : ++thread.next_seed;
    for (std::uint64_t i = 0; i < buffer.words && !out; ++i) {
      thread.host[i] = test::pattern(seed, i);
    }
    for (CuResult result = CuResult::kUnknown; result != CuResult::kSuccess;) {
      result = issue(on, {&it, 1}, out ? "copy out" : "copy in", true, [&] {
        return out ? driver.copy_out(thread.host, buffer.address, buffer.bytes(), on)
                   : driver.copy_in(buffer.address, thread.host, buffer.bytes(), on);
      });
      ASSERT_TRUE(result == CuResult::kSuccess || result == CuResult::kUnknown);
    }
    synchronize(on);
    std::uint64_t differ = 0;
    for (std::uint64_t i = 0; i < buffer.words && out; ++i) {
      differ += thread.host[i] == test::pattern(seed, i) ? 0U : 1U;
    }
    EXPECT_EQ(differ, 0U);
    memory.buffer.seed = seed;
    memory.known = true;
  }
};

TEST_P(RandomCuda, ContentsSurviveEverything) {
  const char* const given = std::getenv("SPILLWAY_SEED");
  const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  const std::uint64_t last = given == nullptr ? kSeeds : first;
  Bytes from_host = 0;
  Bytes from_storage = 0;
  std::uint64_t failed = 0;
  std::uint64_t gates = 0;
  std::uint64_t unseen = 0;
  Bytes given_up_bytes = 0;
  // What programs meet depends on how fast each thread is: some more, if the first few do not.
  constexpr std::uint64_t kMostTimes = 4;
  const auto have_met_everything = [&] {
    const bool remade = given_up_bytes > 0 && given_up_at_random > 0 && far_at_random > 0;
    return from_host > 0 && gates > 0 && unseen > 0 &&
           (!kMeetsEverything ||
            (failed > 0 && from_storage > 0 && (remade || !policy->recomputes())));
  };
  const auto goes_on = [&](std::uint64_t seed) {
    return seed <= last ||
           (given == nullptr && seed <= kMostTimes * last && !have_met_everything());
  };
  for (std::uint64_t seed = first; goes_on(seed) && !HasFailure(); ++seed) {
    SCOPED_TRACE("SPILLWAY_SEED=" + std::to_string(seed));
    set_up(seed);
    run_with_policy(seed);
    from_host += moved(Tier::kHost, Tier::kDevice);
    from_storage += moved(Tier::kStorage, Tier::kDevice);
    failed += platform->stats().engine.failed_transfers;
    gates += counters().gates_waited;
    unseen += platform->bypass().bypassed_calls();
    given_up_bytes += given_up();
    end_and_check();
  }
  if (given == nullptr) {
    EXPECT_GT(from_host, 0U);
    EXPECT_GT(gates, 0U);
    EXPECT_GT(unseen, 0U);
    if (kMeetsEverything) {
      EXPECT_GT(failed, 0U);
      EXPECT_GT(from_storage, 0U);
      EXPECT_EQ(given_up_bytes > 0, policy->recomputes());
      EXPECT_EQ(given_up_at_random > 0, policy->recomputes());
      EXPECT_EQ(far_at_random > 0, policy->recomputes());
    }
  }
}

TEST_P(RandomCuda, ContentsSurviveDirectStorageThatOftenFails) {
  ::setenv(kCuFileCompatibilityVariable, "false", 1);
  FakeCuFileConfig files{};
  fake_cufile_default_config(&files);
  files.refused = files.too_short = files.fails = 0.05;
  FakeCuFileCounters seen{};
  std::uint64_t moved_directly = 0;
  std::uint64_t wrong_calls = 0;
  for (std::uint64_t seed = 1; seed <= 2 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    set_up(seed);
    options.host_bytes = 8 * kMiB;
    options.cufile = {.library = FAKE_CUFILE_LIBRARY, .module = ".", .node = "/dev/null"};
    files.seed = seed;
    files.slow_ns = seed % 2 == 0 ? 300'000 : 0;
    fake_cufile_reset(&files);
    run_with_policy(seed);
    end_and_check();
    fake_cufile_counters(&seen);
    moved_directly += seen.begun > files.spared ? seen.reads + seen.writes - files.spared : 0;
    wrong_calls += seen.wrong_calls;
  }
  EXPECT_GT(moved_directly, 0U);
  EXPECT_EQ(wrong_calls, 0U);
  EXPECT_EQ(seen.handles, 0U);
  ::unsetenv(kCuFileCompatibilityVariable);
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomCuda, ::testing::Values("base_uvm", "deepum", "lookahead"),
                         [](const auto& policy) { return std::string(policy.param); });

}  // namespace
}  // namespace spillway::cuda
