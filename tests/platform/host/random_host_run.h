// The seeded random program of the simulator's tests on a host platform: what every block holds is
// compared with what the program last wrote, by the program and by children that it makes.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "platform/host/host_platform.h"
#include "platform/host/random_host_memory.h"
#include "platform/random/random_program.h"

namespace spillway::host {

using sim::ActionKind;
using sim::BufferUse;
using sim::ProgramAction;

class RandomHostRun {
 public:
  // What else happens to a run: `between_iterations` is called every few launches.
  struct Around {
    bool forks = false;
    std::function<void()> between_iterations;
  };

  RandomHostRun(HostPlatform& platform, std::uint64_t seed, Around around)
      : platform_(platform),
        around_(std::move(around)),
        program_(shape(), seed),
        rng_(seed + 1000),
        buffers_(shape().buffers_max) {}
  ~RandomHostRun() { await_children(0); }
  RandomHostRun(const RandomHostRun&) = delete;
  RandomHostRun& operator=(const RandomHostRun&) = delete;

  // A message if something is wrong.
  std::optional<std::string> run(int actions) {
    for (int i = 0; i < actions && wrong_.empty(); ++i) {
      const ProgramAction action = program_.next();
      carry_out(action);
      if (around_.forks && rng_.chance(1.0 / 200)) {
        make_child();
      }
      if (i % 16 == 0) {
        note(platform_.check_invariants());
      }
      if (!wrong_.empty()) {
        return fmt::format("action {}, {}: {}", i, sim::describe(action), wrong_);
      }
    }
    await_children(0);
    return wrong_.empty() ? std::nullopt : std::optional(wrong_);
  }
  [[nodiscard]] int children() const { return children_made_; }
  [[nodiscard]] int reused() const { return reused_; }

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
            .duration_ns_max = 1,
            .reuses = true};
  }

  void note(const Status& status) {
    if (!status) {
      wrong_ = status.error().message;
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
  // Now all of it, now a part.
  Range part_of(const Buffer& buffer) {
    const auto blocks = static_cast<std::uint32_t>(buffer.blocks.size());
    const auto first = static_cast<std::uint32_t>(rng_.below(blocks + 1));
    return first == blocks ? range_of(buffer, 0, blocks)
                           : range_of(buffer, first,
                                      1 + static_cast<std::uint32_t>(rng_.below(blocks - first)));
  }

  // What lies in blocks that are not discarded as a whole stays.
  void discard_a_part(Buffer& buffer) {
    Range range = part_of(buffer);
    auto first = static_cast<std::size_t>(static_cast<std::uint64_t*>(range.start) - buffer.words) /
                 kBlockWords;
    std::size_t count = (range.bytes + kBlockBytes - 1) / kBlockBytes;
    if (rng_.chance(1.0 / 3)) {  // not from a block's start
      range.start = static_cast<std::uint64_t*>(range.start) + 1;
      range.bytes -= sizeof(std::uint64_t);
      ++first;
      --count;
    }
    if (range.bytes > 0) {
      platform_.discard(range.start, range.bytes, DiscardMode::kEager);
    }
    buffer.forget(first, count);
  }
  // As an allocator does with what it keeps, or as a program does with a tensor.
  void discard_lazily(Buffer& buffer) {
    buffer.retired = rng_.chance(0.5);
    if (buffer.retired) {
      platform_.retire(buffer.words);
    } else {
      platform_.discard(buffer.words, buffer.bytes, DiscardMode::kLazy);
    }
    buffer.forget(0, buffer.blocks.size());
  }
  void revive(Buffer& buffer) {
    if (!buffer.retired) {
      const Range range = part_of(buffer);
      platform_.prefetch(range.start, range.bytes);
      return;
    }
    note(platform_.reuse(buffer.words));
    buffer.retired = false;
    ++reused_;
  }

  void use(const BufferUse& use) {
    Buffer& buffer = buffers_[use.buffer];
    for (std::uint32_t i = 0; i < use.block_count; ++i) {
      const std::uint32_t block = use.first_block + i;
      if (use.mode != AccessMode::kOverwrite && wrong_.empty()) {
        wrong_ = buffer.problem(block);
      }
      if (use.mode != AccessMode::kRead) {
        buffer.write(block, ++version_, use.mode != AccessMode::kWrite);
      }
    }
  }

  // Half of the kernels wait for what they name; of the others some say what they use, and some
  // only that they begin.
  void launch(const ProgramAction& action) {
    std::optional<LaunchId> named;
    if (action.kernel % 2 == 0) {
      std::vector<ProgramOperand> operands;
      for (const BufferUse& one : action.uses) {
        const Range range = range_of(buffers_[one.buffer], one.first_block, one.block_count);
        operands.push_back({.start = range.start, .bytes = range.bytes, .mode = one.mode});
      }
      named = platform_.begin_launch(fmt::format("kernel {}", action.kernel), operands);
    } else {
      const bool tells_all = action.kernel % 4 == 1;
      const LaunchOperand identity{.allocation = action.kernel, .bytes = 0};
      platform_.mark_launch(hash_launch("kernel", {&identity, 1}), "kernel", tells_all);
      for (const BufferUse& one : action.uses) {
        if (tells_all) {
          const Range range = range_of(buffers_[one.buffer], one.first_block, one.block_count);
          platform_.mark_access(range.start, range.bytes, writes(one.mode));
        }
      }
    }
    for (const BufferUse& one : action.uses) {
      use(one);
    }
    if (named) {
      platform_.end_launch(*named);
    }
    program_.finished(action.launch);
    constexpr std::uint64_t kLaunchesPerIteration = 16;
    if (around_.between_iterations && ++launches_ % kLaunchesPerIteration == 0) {
      around_.between_iterations();
    }
  }

  // A child compares all that it sees with what its parent knew when it was made, and what it
  // writes with nothing else.
  [[nodiscard]] bool agrees() {
    for (Buffer& buffer : buffers_) {
      const bool written = rng_.chance(0.25);
      for (std::size_t block = 0; block < buffer.blocks.size() && !buffer.retired; ++block) {
        if (!buffer.problem(block).empty()) {
          return false;
        }
        if (written) {
          buffer.write(block, ++version_, block % 2 == 0);
          if (!buffer.problem(block).empty()) {
            return false;
          }
        }
      }
    }
    return true;
  }
  // The parent goes on meanwhile.
  void make_child() {
    constexpr std::size_t kChildrenMost = 2;
    await_children(kChildrenMost);
    platform_.process().before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(agrees() ? 0 : 1);
    }
    platform_.process().after_fork();
    children_.push_back(child);
    ++children_made_;
  }
  void await_children(std::size_t but_for) {
    while (children_.size() > but_for) {
      int status = 0;
      ::waitpid(children_.front(), &status, 0);
      children_.erase(children_.begin());
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        wrong_ = fmt::format("a child has seen something else (status {})", status);
      }
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
        buffer = {.words = static_cast<std::uint64_t*>(*start), .bytes = action.bytes};
        buffer.blocks.resize((action.bytes + kBlockBytes - 1) / kBlockBytes);
        return;
      }
      case ActionKind::kFree:
        platform_.free(buffer.words);
        buffer = {};
        return;
      case ActionKind::kLaunch:
        launch(action);
        return;
      case ActionKind::kSetBudget:
        note(platform_.set_device_capacity(std::max(action.bytes, 16 * kMiB)));
        return;
      case ActionKind::kReuse:
      case ActionKind::kPrefetch:
        revive(buffer);
        return;
      default:
        if (!buffer.retired) {  // of retired memory there is nothing to say
          change(action.kind, buffer);
        }
    }
  }
  void change(ActionKind kind, Buffer& buffer) {
    switch (kind) {
      case ActionKind::kDiscardEagerly:
        discard_a_part(buffer);
        return;
      case ActionKind::kDiscardLazily:
        discard_lazily(buffer);
        return;
      case ActionKind::kPreEvictToHost:
      case ActionKind::kPreEvictToStorage: {
        const Range range = part_of(buffer);
        platform_.pre_evict(range.start, range.bytes,
                            kind == ActionKind::kPreEvictToHost ? Tier::kHost : Tier::kStorage);
        return;
      }
      default:;  // the shape asks for no others
    }
  }

  HostPlatform& platform_;
  Around around_;
  sim::RandomProgram program_;
  Rng rng_;
  std::vector<Buffer> buffers_;
  std::vector<pid_t> children_;
  int children_made_ = 0;
  int reused_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t version_ = 0;
  std::string wrong_;
};

}  // namespace spillway::host
