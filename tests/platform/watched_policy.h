// Another policy, and beside it a model of what the engine must tell it: who is admitted after
// whom, within which window, and what the launches that wait will use. The model is the simplest
// that can be, and asks the engine nothing.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"
#include "engine/policy.h"

namespace spillway::sim {

class WatchedPolicy final : public Policy {
 public:
  explicit WatchedPolicy(Policy& inner) : inner_(&inner) {}

  // The first thing that was wrong; empty: none.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  // To be said before the engine hears of it.
  void record(SignalId signal, StreamId stream) { push(stream, {Step::kRecord, signal}); }
  void wait(SignalId signal, StreamId stream) { push(stream, {Step::kWait, signal}); }

  // Whether the engine's claims say the same as the model. Most of it is looked at for a random
  // block; all of it now and then.
  void compare(const Engine& engine, Rng& rng) {
    const PendingUses& claims = engine.pending_uses();
    if (claims.waiting() != waiting_.size()) {
      fail(fmt::format("{} launches wait, claims say {}", waiting_.size(), claims.waiting()));
    }
    if (waiting_.empty()) {
      return;
    }
    auto one =
        waiting_.lower_bound(waiting_.begin()->first +
                             rng.below(waiting_.rbegin()->first - waiting_.begin()->first + 1));
    const Launch& launch = one->second;
    const auto next = std::next(one);
    const Launch* said = claims.next_issued(launch.id);
    const Launch& follows = next == waiting_.end() ? waiting_.begin()->second : next->second;
    if (next == waiting_.end() ? said != nullptr : said == nullptr || said->id != follows.id) {
      fail(fmt::format("not what follows launch {} in the order of issue", launch.seq));
    }
    if (const Launch* first = claims.next_issued(kNoLaunch);
        first == nullptr || first->id != waiting_.begin()->second.id) {
      fail("not the first launch that waits");
    }
    if (!launch.accesses.empty()) {
      const Access& access = launch.accesses[rng.below(launch.accesses.size())];
      const auto block = static_cast<BlockId>(access.first_block + rng.below(access.block_count));
      if (claims.next_use(block) != next_use(block)) {
        fail(fmt::format("block {} is used next by launch {}, claims say {}", block,
                         next_use(block), claims.next_use(block)));
      }
    }
    if (rng.chance(0.05)) {
      compare_all(engine);
    }
  }

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] LaunchWindow window() const override { return inner_->window(); }
  void on_issue(const Launch& launch, Control& control) override {
    waiting_.emplace(launch.seq, launch);
    if (launch.stream != kNoStream) {
      push(launch.stream, {Step::kLaunch, launch.seq});
    } else {
      unordered_.insert(launch.seq);
    }
    inner_->on_issue(launch, control);
  }
  void on_launch(const Launch& launch, Control& control) override {
    admit(launch, control);
    inner_->on_launch(launch, control);
  }
  // It stands on no stream: launches and updates that were issued before it and use its blocks come
  // first, and launches that were issued after it wait for it.
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override {
    if (stage == UpdateStage::kIssued) {
      updates_.emplace(launch.seq, launch);
    } else if (stage == UpdateStage::kAdmitted) {
      for_each_block(launch, [&](BlockId id, const Access& access) {
        if (pins(id) > 0 || next_use(id) < launch.seq) {
          fail(fmt::format("update {} is admitted before a launch that uses its block {}",
                           launch.seq, id));
        }
        if (update_before(launch.seq, id, access.mode, access.allocation)) {
          fail(fmt::format("update {} is admitted before another of block {}", launch.seq, id));
        }
      });
    } else {
      updates_.erase(launch.seq);
    }
    inner_->on_update(stage, launch, control);
  }
  void on_fault(const Launch& launch, BlockId block, Control& control) override {
    inner_->on_fault(launch, block, control);
  }
  void on_access(const Launch& launch, BlockId block, Control& control) override {
    inner_->on_access(launch, block, control);
  }
  void on_faults(const Launch& launch, Control& control) override {
    inner_->on_faults(launch, control);
  }
  void on_launch_end(const Launch& launch, Control& control) override {
    for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
      held_bytes_ -= --pins(id) == 0 ? control.space().block(id).bytes : 0;
    });
    if (launch.stream != kNoStream) {
      --streams_[launch.stream].admitted;
    }
    inner_->on_launch_end(launch, control);
  }
  void on_allocate(AllocationId id, Control& control) override { inner_->on_allocate(id, control); }
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override {
    return inner_->select_victim(cause, incoming, control);
  }
  std::optional<BlockId> select_host_victim(BlockId incoming, const Control& control) override {
    return inner_->select_host_victim(incoming, control);
  }
  std::optional<BlockId> select_clean_victim(Cause cause, const Control& control) override {
    return inner_->select_clean_victim(cause, control);
  }
  [[nodiscard]] Tier eviction_tier(BlockId block, const Control& control) override {
    return inner_->eviction_tier(block, control);
  }

 private:
  enum class Step : std::uint8_t { kLaunch, kRecord, kWait };
  struct Item {
    Step step = Step::kLaunch;
    std::uint64_t what = 0;  // place in the order of issue, or a signal
  };
  struct Stream {
    std::deque<Item> items;
    std::uint32_t admitted = 0;
  };

  void push(StreamId stream, const Item& item) {
    if (stream >= streams_.size()) {
      streams_.resize(stream + std::size_t{1});
    }
    streams_[stream].items.push_back(item);
    advance();
  }

  // Until nothing can be passed: recordings give their signals, waits pass those that are given.
  void advance() {
    for (bool again = true; again;) {
      again = false;
      for (Stream& stream : streams_) {
        while (!stream.items.empty() && (stream.items.front().step == Step::kRecord ||
                                         stream.items.front().step == Step::kWait)) {
          const Item& item = stream.items.front();
          if (item.step == Step::kWait && !given_.contains(item.what)) {
            break;
          }
          again |= item.step == Step::kRecord && given_.insert(item.what).second;
          stream.items.pop_front();
        }
      }
    }
  }

  [[nodiscard]] std::optional<LaunchSeq> offered(const Stream& stream) const {
    const bool any = !stream.items.empty() && stream.items.front().step == Step::kLaunch &&
                     stream.admitted < std::max(window().launches_per_stream, 1U);
    return any ? std::optional(stream.items.front().what) : std::nullopt;
  }

  void admit(const Launch& launch, const Control& control) {
    LaunchSeq first = unordered_.empty() ? kNever : *unordered_.begin();
    for (const Stream& stream : streams_) {
      first = std::min(first, offered(stream).value_or(kNever));
    }
    if (first != launch.seq) {
      fail(fmt::format("launch {} is admitted, and launch {} is next", launch.seq, first));
    }
    waiting_.erase(launch.seq);
    if (launch.stream == kNoStream) {
      unordered_.erase(launch.seq);
    } else {
      Stream& stream = streams_[launch.stream];
      ++stream.admitted;
      if (!stream.items.empty()) {
        stream.items.pop_front();
      }
      advance();
    }
    const bool alone = held_bytes_ == 0;
    for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
      if (!updates_.empty() &&
          update_before(launch.seq, id, AccessMode::kReadWrite, kNoAllocation)) {
        fail(fmt::format("launch {} is admitted before an update of its block {}", launch.seq, id));
      }
      held_bytes_ += pins(id)++ == 0 ? control.space().block(id).bytes : 0;
    });
    const Bytes most = std::min(control.capacity_bytes(Tier::kDevice), window().bytes);
    if (held_bytes_ > most && !alone) {
      fail(fmt::format("launch {} is admitted: {} bytes are held, {} may be", launch.seq,
                       held_bytes_, most));
    }
  }

  // Whether one that has not ended comes before that place in the order of issue. Updates of others
  // in a frame that small allocations share run side by side.
  [[nodiscard]] bool update_before(LaunchSeq seq, BlockId id, AccessMode mode,
                                   AllocationId of) const {
    for (const auto& [other, update] : updates_) {
      for (const Access& access : update.accesses) {
        if (other < seq && id - access.first_block < access.block_count &&
            (writes(access.mode) || writes(mode)) &&
            (of == kNoAllocation || of == access.allocation)) {
          return true;
        }
      }
    }
    return false;
  }

  std::uint32_t& pins(BlockId id) {
    if (id >= pins_.size()) {
      pins_.resize(id + std::size_t{1});
    }
    return pins_[id];
  }

  [[nodiscard]] LaunchSeq next_use(BlockId id) const {
    for (const auto& [seq, launch] : waiting_) {
      for (const Access& access : launch.accesses) {
        if (id - access.first_block < access.block_count) {
          return seq;
        }
      }
    }
    return kNever;
  }

  void compare_all(const Engine& engine) {
    const Space& space = engine.space();
    std::vector<LaunchSeq> next(space.block_slots(), kNever);
    for (auto one = waiting_.rbegin(); one != waiting_.rend(); ++one) {
      for_each_block(one->second,
                     [&](BlockId id, const Access& /*access*/) { next[id] = one->first; });
    }
    LaunchSeq last = 0;
    for (BlockId id = 0; id < next.size(); ++id) {
      const Block& block = space.block(id);
      if (block.queue == PageQueue::kUsed && pins(id) == 0 && !block.at_host &&
          block.transfer == kNoIndex && !block.host_mapped && next[id] != kNever) {
        last = std::max(last, next[id]);
      }
    }
    const BlockId said = engine.pending_uses().needed_last();
    if (said == kNoBlock ? last != 0 : next[said] != last || pins(said) > 0) {
      fail(fmt::format("block {} is not the one that may leave and is needed last", said));
    }
    BlockId oldest = engine.queues().oldest(PageQueue::kUsed);
    while (oldest != kNoBlock && next[oldest] != kNever) {
      oldest = engine.queues().newer(oldest);
    }
    if (engine.queues().oldest_unclaimed() != oldest) {
      fail(fmt::format("block {} is the oldest that nobody claims, queues say {}", oldest,
                       engine.queues().oldest_unclaimed()));
    }
  }

  void fail(std::string what) {
    if (problem_.empty()) {
      problem_ = std::move(what);
    }
  }

  Policy* inner_;
  std::vector<Stream> streams_;
  std::set<SignalId> given_;
  std::set<LaunchSeq> unordered_;        // offered, on no stream
  std::map<LaunchSeq, Launch> waiting_;  // issued and not admitted
  std::map<LaunchSeq, Launch> updates_;  // that have not ended
  std::vector<std::uint32_t> pins_;      // by block: admitted launches that name it
  Bytes held_bytes_ = 0;
  std::string problem_;
};

}  // namespace spillway::sim
