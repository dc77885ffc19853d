// The seeded random program of the simulator's tests, on real memory: under every policy that runs
// here, through host memory and a swap file whose transfers fail, with a thread that reads all the
// while. A failing seed is printed; SPILLWAY_SEED replays it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "platform/host/host_platform.h"
#include "platform/sim/random_program.h"
#include "policy/registry.h"

namespace spillway::host {
namespace {

using sim::ActionKind;
using sim::BufferUse;
using sim::ProgramAction;

// Fails transfers at random, as a bad cable would: the file is not touched by those.
class FailingIo final : public BlockIo {
 public:
  FailingIo(std::unique_ptr<BlockIo> real, double rate, std::uint64_t seed)
      : real_(std::move(real)), rate_(rate), rng_(seed) {}
  void submit(IoRequest request) override {
    {
      const std::scoped_lock lock(mutex_);
      if (rng_.chance(rate_)) {
        ++failed;
        std::thread([done = std::move(request.done)] { done(EIO); }).detach();
        return;
      }
    }
    real_->submit(std::move(request));
  }
  std::atomic<int> failed{0};

 private:
  std::unique_ptr<BlockIo> real_;
  double rate_;
  std::mutex mutex_;
  Rng rng_;
};

constexpr std::uint64_t kAnything = ~std::uint64_t{0};
constexpr std::size_t kPageWords = kPageBytes / sizeof(std::uint64_t);

// What the program believes of one block: the versions of its first page and of the rest. Version 0
// is zeros; kAnything, after a discard, is not checked.
struct Belief {
  std::uint64_t head = 0;
  std::uint64_t rest = 0;
};

struct Buffer {
  std::uint64_t* words = nullptr;
  Bytes bytes = 0;
  std::vector<Belief> blocks;
};

class RandomHostRun {
 public:
  RandomHostRun(HostPlatform& platform, std::uint64_t seed)
      : platform_(platform), program_(shape(), seed), buffers_(shape().buffers_max) {}

  // A message if something is wrong.
  std::optional<std::string> run(int actions) {
    for (int i = 0; i < actions && wrong_.empty(); ++i) {
      const ProgramAction action = program_.next();
      carry_out(action);
      if (i % 16 == 0) {
        if (const Status whole = platform_.check_invariants(); !whole) {
          wrong_ = whole.error().message;
        }
      }
      if (!wrong_.empty()) {
        return fmt::format("action {}, {}: {}", i, sim::describe(action), wrong_);
      }
    }
    return std::nullopt;
  }

 private:
  static sim::ProgramShape shape() {
    return {.live_bytes_max = 120 * kMiB,
            .buffer_bytes_max = 20 * kMiB,
            .launch_bytes_max = 24 * kMiB,
            .budget_bytes_max = 64 * kMiB,
            .host_bytes_max = 24 * kMiB,
            .buffers_max = 24,
            .launches_in_flight_max = 1,
            .kernels = 8,
            .duration_ns_max = 1};
  }

  static std::size_t words_of(const Buffer& buffer, std::uint32_t block) {
    const Bytes begin = block * kBlockBytes;
    return std::min(kBlockBytes, buffer.bytes - begin) / sizeof(std::uint64_t);
  }

  static std::uint64_t word(std::uint64_t version, std::size_t at) {
    return version == 0 ? 0 : version * 0x9e3779b97f4a7c15ULL + at;
  }

  void check(const Buffer& buffer, std::uint32_t block) {
    const std::uint64_t* const words = buffer.words + block * (kBlockBytes / 8);
    const Belief& belief = buffer.blocks[block];
    const std::size_t count = words_of(buffer, block);
    for (std::size_t at = 0; at < count; at += at < kPageWords ? 61 : 509) {
      const std::uint64_t version = at < kPageWords ? belief.head : belief.rest;
      if (version != kAnything && words[at] != word(version, at)) {
        wrong_ = fmt::format("block {} holds {:x} at word {}, not version {}", block, words[at], at,
                             version);
        return;
      }
    }
  }

  static void fill(std::uint64_t* words, std::size_t begin, std::size_t end,
                   std::uint64_t version) {
    for (std::size_t at = begin; at < end; ++at) {
      words[at] = word(version, at);
    }
  }

  void use(const BufferUse& use) {
    Buffer& buffer = buffers_[use.buffer];
    for (std::uint32_t i = 0; i < use.block_count; ++i) {
      const std::uint32_t block = use.first_block + i;
      if (use.mode != AccessMode::kOverwrite) {
        check(buffer, block);
      }
      if (use.mode == AccessMode::kRead) {
        continue;
      }
      ++version_;
      std::uint64_t* const words = buffer.words + block * (kBlockBytes / 8);
      const std::size_t count = words_of(buffer, block);
      fill(words, 0, std::min(count, kPageWords), version_);
      buffer.blocks[block].head = version_;
      if (use.mode != AccessMode::kWrite && count > kPageWords) {
        fill(words, kPageWords, count, version_);
        buffer.blocks[block].rest = version_;
      }
    }
  }

  struct Range {
    void* start = nullptr;
    Bytes bytes = 0;
  };
  static Range range_of(const Buffer& buffer, std::uint32_t first_block,
                        std::uint32_t block_count) {
    const Bytes from = first_block * kBlockBytes;
    return {.start = buffer.words + from / sizeof(std::uint64_t),
            .bytes = std::min(block_count * kBlockBytes, buffer.bytes - from)};
  }
  // Now all of it, now a part, by turns that depend on the seed alone.
  Range part_of(const Buffer& buffer) const {
    const auto blocks = static_cast<std::uint32_t>(buffer.blocks.size());
    const auto turn = static_cast<std::uint32_t>(version_);
    const std::uint32_t first = turn % (blocks + 1);
    return first == blocks ? range_of(buffer, 0, blocks)
                           : range_of(buffer, first, 1 + turn / 7 % (blocks - first));
  }

  // What lies in blocks that are not discarded as a whole stays.
  void discard_a_part(Buffer& buffer) {
    Range range = part_of(buffer);
    auto first = static_cast<std::size_t>(static_cast<std::uint64_t*>(range.start) - buffer.words) /
                 (kBlockBytes / sizeof(std::uint64_t));
    std::size_t count = (range.bytes + kBlockBytes - 1) / kBlockBytes;
    if (version_ % 3 == 0) {  // not from a block's start
      range.start = static_cast<std::uint64_t*>(range.start) + 1;
      range.bytes -= sizeof(std::uint64_t);
      ++first;
      --count;
    }
    if (range.bytes > 0) {
      platform_.discard(range.start, range.bytes, DiscardMode::kEager);
    }
    for (std::size_t block = first; block < first + count; ++block) {
      buffer.blocks[block] = {.head = kAnything, .rest = kAnything};
    }
  }

  void launch(const ProgramAction& action) {
    // Half of the kernels say what they use, half only that they begin.
    std::optional<LaunchId> named;
    if (action.kernel % 2 == 0) {
      std::vector<ProgramOperand> operands;
      for (const BufferUse& one : action.uses) {
        const Range range = range_of(buffers_[one.buffer], one.first_block, one.block_count);
        operands.push_back({.start = range.start, .bytes = range.bytes, .mode = one.mode});
      }
      named = platform_.begin_launch(fmt::format("kernel {}", action.kernel), operands);
    } else {
      const LaunchOperand identity{.allocation = action.kernel, .bytes = 0};
      platform_.mark_launch(hash_launch("kernel", {&identity, 1}), "kernel", false);
    }
    for (const BufferUse& one : action.uses) {
      use(one);
    }
    if (named) {
      platform_.end_launch(*named);
    }
    program_.finished(action.launch);
  }

  void forget(Buffer& buffer) {
    for (Belief& belief : buffer.blocks) {
      belief = {.head = kAnything, .rest = kAnything};
    }
  }

  void carry_out(const ProgramAction& action) {
    Buffer& buffer = buffers_[action.buffer];
    switch (action.kind) {
      case ActionKind::kAllocate: {
        const Result<void*> start = platform_.allocate(action.bytes);
        if (!start) {
          wrong_ = start.error().message;
          return;
        }
        buffer.words = static_cast<std::uint64_t*>(*start);
        buffer.bytes = action.bytes;
        buffer.blocks.assign((action.bytes + kBlockBytes - 1) / kBlockBytes, {});
        return;
      }
      case ActionKind::kFree:
        platform_.free(buffer.words);
        buffer = {};
        return;
      case ActionKind::kDiscardEagerly:
        discard_a_part(buffer);
        return;
      case ActionKind::kDiscardLazily:
        platform_.discard(buffer.words, buffer.bytes, DiscardMode::kLazy);
        forget(buffer);
        return;
      case ActionKind::kPrefetch:
        platform_.prefetch(part_of(buffer).start, part_of(buffer).bytes);
        return;
      case ActionKind::kPreEvictToHost:
        platform_.pre_evict(part_of(buffer).start, part_of(buffer).bytes, Tier::kHost);
        return;
      case ActionKind::kPreEvictToStorage:
        platform_.pre_evict(part_of(buffer).start, part_of(buffer).bytes, Tier::kStorage);
        return;
      case ActionKind::kLaunch:
        launch(action);
        return;
      case ActionKind::kSetBudget:
        if (const Status set = platform_.set_device_capacity(std::max(action.bytes, 16 * kMiB));
            !set) {
          wrong_ = set.error().message;
        }
        return;
      case ActionKind::kSetHost:
      case ActionKind::kReuse:  // the shape asks for none of these
      case ActionKind::kRecord:
      case ActionKind::kWait:
      case ActionKind::kTouch:
        return;
    }
  }

  HostPlatform& platform_;
  sim::RandomProgram program_;
  std::vector<Buffer> buffers_;
  std::uint64_t version_ = 0;
  std::string wrong_;
};

class RandomHostTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(RandomHostTest, ContentsSurviveEverything) {
  const UserfaultSupport support = userfault_support();
  if (!support.write_protection || !support.kernel_faults) {
    GTEST_SKIP() << support.reason;
  }
  const char* const given = std::getenv("SPILLWAY_SEED");
  const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  const std::uint64_t last = given == nullptr ? 3 : first;
  int failed = 0;
  Bytes from_storage = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const PolicyInfo& info = **find_policy(GetParam());
    const std::unique_ptr<Policy> policy = std::move(*info.make(Trace{}, Machine{}, {}));
    Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 256 * kMiB);
    ASSERT_TRUE(file) << file.error().message;
    HostOptions options;
    options.device_bytes = 32 * kMiB;
    options.host_bytes = 24 * kMiB;
    options.reclaim_discarded_first = seed % 2 == 0;
    options.keep_frames = seed % 3 != 0;  // else as on kernels that cannot move pages
    FailingIo* failing = nullptr;
    options.wrap_io = [&](std::unique_ptr<BlockIo> real) {
      auto wrapped = std::make_unique<FailingIo>(std::move(real), 0.1, seed);
      failing = wrapped.get();
      return wrapped;
    };
    Result<std::unique_ptr<HostPlatform>> platform =
        HostPlatform::create(options, std::move(*file), *policy);
    ASSERT_TRUE(platform) << platform.error().message;
    RandomHostRun run(**platform, seed);
    const std::optional<std::string> wrong = run.run(400);
    EXPECT_FALSE(wrong) << "SPILLWAY_SEED=" << seed << ": " << *wrong;
    (*platform)->wait_until_idle();
    failed += failing->failed;
    from_storage += (*platform)->stats().engine.moved(Tier::kStorage, Tier::kDevice);
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(from_storage, 0U);
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomHostTest,
                         ::testing::Values("base_uvm", "deepum", "deepum_plus"));

}  // namespace
}  // namespace spillway::host
