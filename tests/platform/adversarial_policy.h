// A policy that is wrong whenever it can be.
#pragma once

#include <optional>
#include <string_view>

#include "base/rng.h"
#include "engine/launches/pending_uses.h"
#include "engine/memory/space.h"
#include "engine/policy.h"

namespace spillway::sim {

// Wishes for nonsense: random blocks, numbers that no block has, tiers that no victim can go to,
// on every occasion. Lets a few launches be admitted at once, few bytes, or all.
class AdversarialPolicy final : public Policy {
 public:
  explicit AdversarialPolicy(std::uint64_t seed) : rng_(seed) {
    const std::uint64_t dice = rng_.below(4);
    window_.launches_per_stream = dice == 0   ? static_cast<std::uint32_t>(rng_.below(2))
                                  : dice == 1 ? 1 + static_cast<std::uint32_t>(rng_.below(8))
                                              : window_.launches_per_stream;
    window_.bytes = rng_.chance(0.3) ? rng_.below(16 * kBlockBytes) : window_.bytes;
  }
  [[nodiscard]] std::string_view name() const override { return "adversarial"; }
  [[nodiscard]] LaunchWindow window() const override { return window_; }
  void on_issue(const Launch& launch, Control& control) override {
    last_issued_ = launch.id;
    wish(control);
    ask(control.pending_uses());
  }
  void on_launch(const Launch& /*launch*/, Control& control) override { wish(control); }
  void on_fault(const Launch& /*launch*/, BlockId /*block*/, Control& control) override {
    wish(control);
  }
  void on_faults(const Launch& /*launch*/, Control& control) override { wish(control); }
  void on_launch_end(const Launch& /*launch*/, Control& control) override { wish(control); }
  void on_allocate(AllocationId /*id*/, Control& control) override { wish(control); }
  std::optional<BlockId> select_host_victim(BlockId /*incoming*/, const Control& control) override {
    return random_block(control);
  }
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override {
    const std::uint64_t dice = rng_.below(10);
    if (dice < 3) {
      return std::nullopt;
    }
    return dice < 7 ? random_block(control) : Policy::select_victim(cause, incoming, control);
  }
  Tier eviction_tier(BlockId /*block*/, const Control& /*control*/) override {
    return random_tier();
  }

 private:
  BlockId random_block(const Control& control) {
    return static_cast<BlockId>(rng_.below(control.space().block_slots() + 3));
  }
  Tier random_tier() { return static_cast<Tier>(rng_.below(kTierCount)); }
  void wish(Control& control) {
    for (std::uint64_t i = rng_.below(4); i > 0; --i) {
      switch (rng_.below(6)) {
        case 0:
          control.pre_evict(random_block(control), random_tier());
          break;
        case 1:
          control.copy_down(random_block(control), random_tier());
          break;
        case 2:
          for (int tries = 0; tries < 8; ++tries) {
            (void)control.set_host_mapped(random_block(control));
          }
          break;
        case 3:
          control.clear_host_mapped(random_block(control));
          break;
        default:
          control.prefetch(random_block(control));
          break;
      }
    }
  }
  // Launches of the past, of the future, and that never were.
  void ask(const PendingUses& uses) {
    const LaunchId after = rng_.chance(0.5) ? last_issued_ - rng_.below(3) : rng_.next();
    const Launch* next = uses.next_issued(after);
    if (next != nullptr && rng_.chance(0.5)) {
      (void)uses.next_issued(next->id);
    }
    (void)uses.needed_last();
  }
  Rng rng_;
  LaunchWindow window_;
  LaunchId last_issued_ = 0;
};

}  // namespace spillway::sim
