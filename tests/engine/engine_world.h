// An engine in the test's hands: a mechanism that records what it is asked and leaves every
// transfer to the test to finish or to fail, and a policy that does what the test scripts.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace spillway {

// Among calls: no block is copied between tiers.
inline const auto no_transfer = testing::Each(testing::Not(testing::HasSubstr(">")));

class RecordingMechanism final : public Mechanism {
 public:
  void start_transfer(const Transfer& transfer) override {
    under_way.push_back(transfer);
    std::string blocks;
    for (const BlockId id : transfer.blocks) {
      blocks += fmt::format(" {}", id);
    }
    constexpr std::array kNames{"fault", "prefetch", "evict", "pre_evict"};
    calls.push_back(fmt::format("{} {}>{}{}", kNames[static_cast<std::size_t>(transfer.cause)],
                                name_of(transfer.from), name_of(transfer.to), blocks));
  }
  void zero(std::span<const BlockId> blocks) override { note("zero", blocks, ""); }
  void zero_at_host(std::span<const BlockId> blocks) override { note("zero at host", blocks, ""); }
  void map(std::span<const BlockId> blocks, bool writable) override {
    note("map", blocks, writable ? "" : " read-only");
  }
  void unmap(std::span<const BlockId> blocks) override { note("unmap", blocks, ""); }
  void drop(std::span<const BlockId> blocks, Tier tier) override {
    note("drop", blocks, fmt::format(" {}", name_of(tier)));
  }
  void freed(AllocationId id) override { gone.push_back(id); }
  void gave_up(AllocationId id) override { given_up.push_back(id); }
  void faults_served(std::uint64_t launch) override {
    calls.push_back(fmt::format("served {}", launch));
  }
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override {
    calls.push_back(fmt::format("ready {}", launch));
    released_behind.assign(transfers.begin(), transfers.end());
  }

  std::vector<AllocationId> gone;           // allocations whose freeing took effect
  std::vector<AllocationId> given_up;       // ... that are to be made again
  std::vector<TransferId> released_behind;  // of the last launch
  std::vector<std::size_t> spans;           // how many blocks each call was for
  std::vector<Transfer> under_way;          // in the order in which they were started
  std::vector<std::string> calls;

 private:
  // A line for each block.
  void note(std::string_view what, std::span<const BlockId> blocks, std::string_view how) {
    spans.push_back(blocks.size());
    for (const BlockId id : blocks) {
      calls.push_back(fmt::format("{} {}{}", what, id, how));
    }
  }
};

class ScriptedPolicy final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  void on_issue(const Launch& launch, Control& control) override {
    if (at_issue) {
      at_issue(launch, control);
    }
  }
  [[nodiscard]] LaunchWindow window() const override { return admitted_at_once; }
  [[nodiscard]] bool recomputes() const override { return gives_up; }
  void on_death_said(AllocationId id) override {
    if (at_death_said) {
      at_death_said(id);
    }
  }
  void on_give_up(AllocationId id) override {
    if (at_give_up) {
      at_give_up(id);
    }
  }
  void on_launch(const Launch& launch, Control& control) override {
    if (at_launch) {
      at_launch(launch, control);
    }
  }
  void on_fault(const Launch& /*launch*/, BlockId block, Control& /*control*/) override {
    faults.push_back(block);
  }
  void on_access(const Launch& /*launch*/, BlockId block, Control& /*control*/) override {
    accesses.push_back(block);
  }
  void on_launch_end(const Launch& launch, Control& control) override {
    if (at_launch_end) {
      at_launch_end(launch, control);
    }
  }
  void on_update(UpdateStage stage, const Launch& launch, Control& /*control*/) override {
    if (at_update) {
      at_update(stage, launch);
    }
  }
  std::optional<BlockId> select_host_victim(BlockId /*incoming*/,
                                            const Control& /*control*/) override {
    return host_victim;
  }
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override {
    room_for = incoming;
    return victim ? victim(cause) : Policy::select_victim(cause, incoming, control);
  }
  std::optional<BlockId> select_clean_victim(Cause /*cause*/, const Control& /*control*/) override {
    return clean_victim;
  }
  Tier eviction_tier(BlockId /*block*/, const Control& /*control*/) override { return tier; }

  std::function<void(const Launch&, Control&)> at_issue;
  std::function<void(const Launch&, Control&)> at_launch;
  LaunchWindow admitted_at_once;
  bool gives_up = false;
  std::function<void(AllocationId)> at_death_said;
  std::function<void(AllocationId)> at_give_up;
  std::function<void(const Launch&, Control&)> at_launch_end;
  std::function<void(UpdateStage, const Launch&)> at_update;
  std::function<std::optional<BlockId>(Cause)> victim;
  std::optional<BlockId> host_victim;
  BlockId room_for = kNoBlock;  // what it was last asked for
  std::optional<BlockId> clean_victim;
  Tier tier = Tier::kHost;
  std::vector<BlockId> faults;
  std::vector<BlockId> accesses;
};

// Capacities in blocks of 2 MiB; one block a transfer, no room made ahead, so that every step can
// be told.
inline EngineOptions one_at_a_time(std::uint64_t device, std::uint64_t host,
                                   std::uint64_t storage) {
  return {.device_capacity_bytes = device * kBlockBytes,
          .host_capacity_bytes = host * kBlockBytes,
          .storage_capacity_bytes = storage * kBlockBytes,
          .host_batch_bytes = 1,
          .storage_batch_bytes = 1,
          .eviction_batch_bytes = 1,
          .batches_in_flight = 1,
          .room_ahead_bytes = 0};
}

class World {
 public:
  explicit World(const EngineOptions& options) : engine(options, mechanism, policy) {}
  ~World() { check(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  AllocationId allocate(std::uint64_t blocks) { return allocate_bytes(blocks * kBlockBytes); }
  AllocationId allocate_bytes(Bytes bytes) {
    const Result<AllocationId> id = engine.allocate(bytes, 0);
    EXPECT_TRUE(id.has_value());
    return *id;
  }
  std::vector<AllocationId> allocate_single_blocks(std::size_t count) {
    std::vector<AllocationId> ids(count);
    std::generate(ids.begin(), ids.end(), [this] { return allocate(1); });
    return ids;
  }
  [[nodiscard]] Access use(AllocationId id, AccessMode mode) const {
    const Allocation& allocation = engine.space().allocation(id);
    return {id, allocation.first_block, allocation.block_count, mode};
  }
  [[nodiscard]] Access read(AllocationId id) const { return use(id, AccessMode::kRead); }
  [[nodiscard]] Access write(AllocationId id) const { return use(id, AccessMode::kWrite); }
  [[nodiscard]] Access overwrite(AllocationId id) const { return use(id, AccessMode::kOverwrite); }

  // Launches are numbered 1, 2, 3...
  LaunchAdmission begin(std::vector<Access> accesses, StreamId stream = kNoStream) {
    return issue({.stream = stream, .position = 0, .accesses = std::move(accesses)});
  }
  LaunchAdmission issue(Launch launch) {
    launch.tag = ++launches;
    const LaunchAdmission admission = engine.issue_launch(std::move(launch));
    launch_ids.push_back(admission.id);
    check();
    return admission;
  }
  void end(std::uint64_t launch) {
    engine.end_launch(launch_ids.at(launch - 1));
    check();
  }
  // Issues the launch, lets every transfer finish, and ends it.
  void run(std::vector<Access> accesses) {
    begin(std::move(accesses));
    finish_all();
    end(launches);
  }
  // Writes them, one launch each; the mechanism's calls are forgotten.
  void write_all(const std::vector<AllocationId>& ids) {
    for (const AllocationId id : ids) {
      run({write(id)});
    }
    forget();
  }

  // Allocations of a block each, written in this order: with `count` names in brackets.
  template <std::size_t count>
  std::array<AllocationId, count> written_blocks() {
    std::array<AllocationId, count> ids{};
    std::generate(ids.begin(), ids.end(), [this] { return allocate(1); });
    write_all({ids.begin(), ids.end()});
    return ids;
  }

  // The transfer that was started first, or that of this cause, ends.
  void finish(std::optional<Cause> cause = std::nullopt) {
    const TransferId id = take(cause);
    engine.transfer_finished(id);
    check();
  }
  void fail(std::optional<Cause> cause = std::nullopt) {
    const TransferId id = take(cause);
    engine.transfer_failed(id);
    check();
  }
  void finish_all() {
    while (!mechanism.under_way.empty()) {
      finish();
    }
  }

  void free(AllocationId id) {
    engine.free(id);
    check();
  }
  void discard(AllocationId id, DiscardMode mode = DiscardMode::kEager) {
    engine.discard(id, mode);
    check();
  }
  void prefetch(AllocationId id) {
    const Allocation& allocation = engine.space().allocation(id);
    engine.prefetch_blocks(allocation.first_block, allocation.block_count);
    check();
  }
  void pre_evict(AllocationId id, Tier to = Tier::kHost) {
    const Allocation& allocation = engine.space().allocation(id);
    engine.pre_evict_blocks(allocation.first_block, allocation.block_count, to);
    check();
  }

  // What the mechanism was asked since the last time.
  std::vector<std::string> calls() {
    std::vector<std::string> taken;
    taken.swap(mechanism.calls);
    return taken;
  }
  void forget() { mechanism.calls.clear(); }

  [[nodiscard]] const Block& block(AllocationId id, std::uint32_t index = 0) const {
    return engine.space().block(engine.space().allocation(id).first_block + index);
  }
  [[nodiscard]] const EngineStats& stats() const { return engine.stats(); }
  void check() const {
    const Status status = engine.check_invariants();
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }

  RecordingMechanism mechanism;
  ScriptedPolicy policy;
  Engine engine;
  std::uint64_t launches = 0;
  std::vector<LaunchId> launch_ids;  // of each

 private:
  TransferId take(std::optional<Cause> cause) {
    const auto found =
        std::find_if(mechanism.under_way.begin(), mechanism.under_way.end(),
                     [&](const Transfer& transfer) { return !cause || transfer.cause == *cause; });
    EXPECT_NE(found, mechanism.under_way.end()) << "no such transfer is under way";
    const TransferId id = found->id;
    mechanism.under_way.erase(found);
    return id;
  }
};

}  // namespace spillway
