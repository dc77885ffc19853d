// See early_writeback.h.
#include "policy/habits/early_writeback.h"

#include <algorithm>
#include <utility>

#include "engine/launches/pending_uses.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/space.h"
#include "policy/habits/small_blocks.h"

namespace spillway {
namespace {

// Copies that wait for their transfer, or are under way: enough for the time between two events,
// some milliseconds where an optimizer's launches are large.
constexpr Bytes kCopyingBytes = 512 * kMiB;
// Of those that were still used, so many are looked at again at each event.
constexpr std::size_t kLaterLooks = 32;
// Of those that were copied down so many are compared, beside those that launches use, of which so
// many are looked at.
constexpr std::size_t kCopiedCandidates = 64;
constexpr std::size_t kCopiedInUse = 1024;

Bytes copying_bytes(const Control& control) {
  return control.pre_evicting_bytes(Tier::kHost) + control.pre_evicting_bytes(Tier::kStorage);
}

}  // namespace

EarlyWriteback::Habit& EarlyWriteback::habit_of(BlockId block, const Control& control) {
  if (block >= habits_.size()) {
    habits_.resize(control.space().block_slots());
  }
  return habits_[block];
}

void EarlyWriteback::ended(const Launch& launch, const Control& control) {
  const Bytes least_bytes = small_block_bytes(control);
  for_each_block(launch, [&](BlockId id, const Access& access) {
    if (!writes(access.mode)) {
      return;
    }
    Habit& habit = habit_of(id, control);
    if (std::exchange(habit.copied, false)) {
      habit.leaves_after.in_vain();  // it has not left
    }
    habit.leaves_after.used(launch);
    if (habit.leaves() && !habit.listed && control.space().block(id).bytes >= least_bytes) {
      habit.listed = true;
      written_.push_back(id);
    }
  });
}

void EarlyWriteback::leaves(BlockId block, const Control& control) {
  Habit& habit = habit_of(block, control);
  (void)habit.leaves_after.came();
  habit.copied = false;
}

void EarlyWriteback::advance(LaunchSeq used_up_to, Control& control) {
  while (!written_.empty() && copying_bytes(control) < kCopyingBytes) {
    copy_first(written_, used_up_to, control);
  }
  for (std::size_t looks = std::min(later_.size(), kLaterLooks);
       looks > 0 && copying_bytes(control) < kCopyingBytes; --looks) {
    copy_first(later_, used_up_to, control);
  }
}

// Gone, dead, host-mapped, or safe below; or its habit has been found wrong since.
bool EarlyWriteback::needs_no_copy(BlockId id, const Control& control) const {
  const Block& block = control.space().block(id);
  return !control.space().has_tenant(id) || !habits_[id].leaves() || habits_[id].copied ||
         block.host_mapped || block.contents != Contents::kLive ||
         !block.copies.has(Tier::kDevice) || safe_below(block);
}

void EarlyWriteback::copy_first(std::deque<BlockId>& blocks, LaunchSeq used_up_to,
                                Control& control) {
  const BlockId id = blocks.front();
  blocks.pop_front();
  if (needs_no_copy(id, control)) {
    habits_[id].listed = false;
    return;
  }
  if (!control.evictable(id) || control.pending_uses().next_use(id) <= used_up_to) {
    later_.push_back(id);
    return;
  }
  habits_[id].listed = false;
  habits_[id].copied = true;
  if (!std::exchange(habits_[id].in_copied, true)) {
    copied_.push_back(id);
  }
  const Bytes wanted_bytes =
      control.pre_evicting_bytes(Tier::kHost) + control.space().block(id).bytes;
  control.copy_down(id,
                    control.free_bytes(Tier::kHost) > wanted_bytes ? Tier::kHost : Tier::kStorage);
}

// It has left, is gone, or has been written since.
bool EarlyWriteback::is_copied_no_more(BlockId id, const Control& control) const {
  const Block& block = control.space().block(id);
  return !control.space().has_tenant(id) || !habits_[id].copied ||
         !block.copies.has(Tier::kDevice) ||
         (!safe_below(block) && !block.wished_out && block.transfer == kNoIndex);
}

// Among the oldest: an optimizer writes a parameter, which the next forward pass uses, together
// with its states, which only the next optimizer does.
std::optional<BlockId> EarlyWriteback::copied(const Control& control, const ReusePrefetcher& uses) {
  std::optional<BlockId> last;
  LaunchSeq last_use = 0;
  std::size_t candidates = 0;
  std::size_t in_use = 0;
  auto kept = copied_.begin();
  auto next = copied_.begin();
  for (; next != copied_.end() && candidates < kCopiedCandidates && in_use < kCopiedInUse; ++next) {
    const BlockId id = *next;
    if (is_copied_no_more(id, control)) {
      habits_[id].in_copied = false;
      continue;
    }
    *kept++ = id;
    if (control.pending_uses().next_launch(id) != kNoLaunch || !control.evictable(id) ||
        !safe_below(control.space().block(id))) {
      ++in_use;  // or on its way down
      continue;
    }
    ++candidates;
    if (const LaunchSeq use = uses.expected(id); !last || use > last_use) {
      last = id;
      last_use = use;
    }
  }
  copied_.erase(kept, next);
  return last;
}

}  // namespace spillway
