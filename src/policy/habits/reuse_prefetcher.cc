// See reuse_prefetcher.h.
#include "policy/habits/reuse_prefetcher.h"

#include <algorithm>
#include <utility>

#include "engine/launches/pending_uses.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"

namespace spillway {
namespace {

// So much may wait to come: what a launch needs comes behind it.
constexpr Bytes kComingBytes = 128 * kMiB;
// This part of the device is left for what comes to life.
constexpr Bytes kSparePart = 20;
// Launches may differ from iteration to iteration. One that is late by this part of what was
// expected does not come.
constexpr LaunchSeq kLatePart = 4;
bool comes_yet(LaunchSeq expected, LaunchSeq launches, LaunchSeq now) {
  return expected + launches / kLatePart >= now;
}
// What was too early is tried again a little earlier each time: shapes change.
constexpr LaunchSeq kEarlierPart = 32;
// Of those that would come too early, so many are looked at.
constexpr int kAwayLooks = 32;

}  // namespace

const ReusePrefetcher::Return* ReusePrefetcher::Habit::known() const {
  const std::optional<std::size_t> place = returns_after.place();
  return place ? &returns.at(*place) : nullptr;
}

ReusePrefetcher::Habit& ReusePrefetcher::habit_of(BlockId block, const Control& control) {
  if (block >= habits_.size()) {
    habits_.resize(control.space().block_slots());
  }
  return habits_[block];
}

void ReusePrefetcher::forget(BlockId block, Habit& habit) {
  if (habit.expected != 0) {
    away_.erase({habit.expected, block});
    habit.expected = 0;
  }
}

void ReusePrefetcher::issued(const Launch& launch, const Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Habit& habit = habit_of(id, control);
    forget(id, habit);
    if (habit.away) {
      const Return* const known = habit.known();
      const LaunchSeq too_early = known == nullptr ? 0 : known->too_early;
      if (const std::optional<std::size_t> place = habit.returns_after.came()) {
        habit.returns.at(*place) = {.launches = launch.seq - habit.used(),
                                    .too_early = too_early - too_early / kEarlierPart};
      }
    }
    habit.away = false;
    habit.brought = false;
  });
}

void ReusePrefetcher::ended(const Launch& launch, const Control& control) {
  now_ = std::max(now_, launch.seq);
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    habit_of(id, control).returns_after.used(launch);
  });
}

void ReusePrefetcher::leaves(BlockId block, const Control& control) {
  if (control.pending_uses().next_launch(block) != kNoLaunch) {
    return;  // it comes back for that one
  }
  Habit& habit = habit_of(block, control);
  habit.away = true;
  const std::optional<std::size_t> place = habit.returns_after.place();
  if (!place) {
    return;
  }
  Return& known = habit.returns.at(*place);
  if (std::exchange(habit.brought, false)) {
    known.too_early = std::max(known.too_early, now_ - habit.used());
  }
  forget(block, habit);
  habit.expected = habit.used() + known.launches;
  away_.insert({habit.expected, block});
}

LaunchSeq ReusePrefetcher::expected(BlockId block) const {
  if (block >= habits_.size()) {
    return 2 * now_;
  }
  const Habit& habit = habits_[block];
  const Return* const known = habit.known();
  if (known != nullptr) {
    const LaunchSeq expected = habit.used() + known->launches;
    if (comes_yet(expected, known->launches, now_)) {
      return std::max(now_, expected);
    }
  }
  return now_ + (now_ - habit.used());
}

void ReusePrefetcher::advance(Control& control) {
  const Bytes spare_bytes = control.capacity_bytes(Tier::kDevice) / kSparePart;
  Bytes room_bytes = control.free_bytes(Tier::kDevice) +
                     control.queues().bytes(PageQueue::kUnused) +
                     control.queues().bytes(PageQueue::kDiscarded);
  room_bytes -= std::min(room_bytes, control.queued_prefetch_bytes());
  auto next = away_.begin();
  int looks = 0;
  while (next != away_.end() && looks < kAwayLooks &&
         control.queued_prefetch_bytes() < kComingBytes) {
    const auto [expected, id] = *next;
    const Block& block = control.space().block(id);
    if (block.bytes + spare_bytes > room_bytes) {
      return;
    }
    Habit& habit = habits_[id];
    const Return* const known = habit.known();
    const bool comes = known != nullptr && comes_yet(expected, known->launches, now_) &&
                       control.space().has_tenant(id) && block.contents == Contents::kLive &&
                       !control.usable(id) && !control.on_its_way(id);
    if (comes && now_ - habit.used() <= known->too_early) {
      ++next;
      ++looks;
      continue;
    }
    habit.expected = 0;
    next = away_.erase(next);
    if (comes) {
      habit.brought = true;
      room_bytes -= block.bytes;
      control.prefetch(id);
    }
  }
}

}  // namespace spillway
