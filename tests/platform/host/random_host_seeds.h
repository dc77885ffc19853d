// Random programs on host platforms, seed by seed: a machine that is short of everything and has a
// bad disk. SPILLWAY_SEED replays one seed, SPILLWAY_EVENTS asks for so many actions of one policy.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "platform/host/random_host_run.h"
#include "policy/registry.h"

namespace spillway::host {

// Fails transfers at random, as a bad cable would: the file is not touched by those.
class FailingIo final : public BlockIo {
 public:
  FailingIo(std::unique_ptr<BlockIo> real, std::uint64_t seed, std::atomic<int>& failed)
      : real_(std::move(real)), rng_(seed), failed_(failed) {}
  void submit(IoRequest request) override {
    {
      const std::scoped_lock lock(mutex_);
      if (rng_.chance(kFailureRate)) {
        ++failed_;
        std::thread([done = std::move(request.done)] { done(EIO); }).detach();
        return;
      }
    }
    real_->submit(std::move(request));
  }

 private:
  static constexpr double kFailureRate = 0.1;
  std::unique_ptr<BlockIo> real_;
  std::mutex mutex_;
  Rng rng_;
  std::atomic<int>& failed_;
};

// What the runs under one policy did.
struct HostSeen {
  std::atomic<int> failed{0};
  Bytes from_storage = 0;
  Bytes to_host = 0;
  int children = 0;
  int reused = 0;
  std::uint64_t seeds = 0;
};

class RandomHostSeeds {
 public:
  static constexpr std::uint64_t kActionsPerSeed = 250;

  // The policy for a seed, and what happens between iterations; may be empty.
  using MakePolicy = std::function<std::unique_ptr<Policy>(std::uint64_t seed)>;
  using BetweenIterations = std::function<void(HostPlatform& platform)>;

  RandomHostSeeds(const PolicyInfo& info, std::uint64_t seeds)
      : info_(info), last_(number_from("SPILLWAY_EVENTS").value_or(0) / kActionsPerSeed) {
    first_ = number_from("SPILLWAY_SEED").value_or(1);
    last_ = number_from("SPILLWAY_SEED").value_or(last_ > 0 ? last_ : seeds);
  }
  // Not one seed alone, or few: the runs should have done all that they are meant to do.
  [[nodiscard]] bool are_many() const { return last_ > first_; }

  void run(const MakePolicy& make, const BetweenIterations& between, HostSeen& seen) {
    for (std::uint64_t seed = first_; seed <= last_ && !testing::Test::HasFailure(); ++seed) {
      run_one(seed, make, between, seen);
    }
  }

 private:
  static std::optional<std::uint64_t> number_from(const char* variable) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? std::nullopt : std::optional(std::strtoull(text, nullptr, 10));
  }

  void run_one(std::uint64_t seed, const MakePolicy& make, const BetweenIterations& between,
               HostSeen& seen) {
    const std::unique_ptr<Policy> policy = make(seed);
    Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 256 * kMiB);
    ASSERT_TRUE(file) << file.error().message;
    HostOptions options;
    options.device_bytes = 32 * kMiB;
    options.host_bytes = info_.traits.uses_host ? 24 * kMiB : 0;
    options.reclaim_discarded_first = seed % 2 == 0;
    options.keep_frames = seed % 3 != 0;  // else as on kernels that cannot move pages
    options.wrap_io = [&](std::unique_ptr<BlockIo> real) {
      return std::make_unique<FailingIo>(std::move(real), seed, seen.failed);
    };
    Result<std::unique_ptr<HostPlatform>> platform =
        HostPlatform::create(options, std::move(*file), *policy);
    ASSERT_TRUE(platform) << platform.error().message;
    RandomHostRun::Around around{.forks = userfault_support().fork_events,
                                 .between_iterations = {}};
    if (between) {
      around.between_iterations = [&] { between(**platform); };
    }
    RandomHostRun run(**platform, seed, around);
    const std::optional<std::string> wrong = run.run(kActionsPerSeed);
    EXPECT_FALSE(wrong) << "SPILLWAY_SEED=" << seed << ": " << *wrong;
    (*platform)->wait_until_idle();
    const EngineStats stats = (*platform)->stats().engine;
    seen.from_storage += stats.moved(Tier::kStorage, Tier::kDevice);
    seen.to_host += stats.moved(Tier::kDevice, Tier::kHost);
    seen.children += run.children();
    seen.reused += run.reused();
    ++seen.seeds;
  }

  const PolicyInfo& info_;
  std::uint64_t first_ = 1;
  std::uint64_t last_;
};

}  // namespace spillway::host
