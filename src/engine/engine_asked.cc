// What the program asks for ahead of need, in the order of its launches. See engine.h,
// asked_ahead.h; docs/engine.md.
#include "engine/engine.h"
#include "engine/memory/for_each_block.h"

namespace spillway {
namespace {

// So much may wait to come: what a launch needs comes behind it.
constexpr Bytes kComingBytes = 128 * kMiB;
// This part of the device is left for what comes to life.
constexpr Bytes kSparePart = 20;

}  // namespace

void Engine::ask_down(const Launch& named, bool stays, std::optional<Tier> to) {
  for_each_block(named, [&](BlockId id, const Access& /*access*/) {
    asked_.ask_down(id, {.behind = last_issued_, .stays = stays, .to = to});
    move_down_if_final(id);
  });
  pump();
  settle();
}

// Nobody uses the block, and of the launches that had been issued by then none will. What is to
// give up its frame would have to come back for a launch that is issued already: which of those
// leaves is for the policy to say.
void Engine::move_down_if_final(BlockId id) {
  const std::optional<AskedAhead::Down> down = asked_.down_of(id);
  if (!down || space_.block(id).pins > 0 || pending_uses_.next_use(id) <= down->behind) {
    return;
  }
  asked_.forget(id);
  if (down->stays) {
    copy_down(id, Tier::kHost);
  } else if (pending_uses_.next_use(id) == kNever) {
    const Tier usual = capacity_bytes(Tier::kHost) > 0 ? Tier::kHost : Tier::kStorage;
    pre_evict(id, down->to.value_or(usual));
  }
}

void Engine::prefetch_behind(const Launch& named) {
  for_each_block(named,
                 [&](BlockId id, const Access& /*access*/) { asked_.ask_up(id, last_issued_); });
  pump();
  settle();
}

// Programs ask as early as a tensor fits beside what they know of, and not all that is alive is
// among that: so nothing has to make way.
void Engine::bring_what_was_asked_for() {
  const Launch* const waiting = pending_uses_.next_issued(kNoLaunch);
  const LaunchSeq reached = waiting == nullptr ? kNever : waiting->seq;
  const Bytes spare_bytes = capacity_bytes(Tier::kDevice) / kSparePart;
  while (true) {
    const std::optional<BlockId> id = asked_.first_up(reached);
    if (!id) {
      return;
    }
    const Block& block = space_.block(*id);
    const bool comes =
        block.contents == Contents::kLive && !block.copies.has(Tier::kDevice) && !on_its_way(*id);
    const Bytes room_bytes = free_bytes(Tier::kDevice) + queues_.bytes(PageQueue::kUnused) +
                             queues_.bytes(PageQueue::kDiscarded);
    const Bytes coming_bytes = fetches_.fault_bytes() + fetches_.prefetch_bytes();
    if (comes && (coming_bytes >= kComingBytes ||
                  room_bytes < coming_bytes + device_bytes(block) + spare_bytes)) {
      return;
    }
    asked_.forget(*id);
    if (block.contents == Contents::kLive) {
      prefetch(*id);
    }
  }
}

}  // namespace spillway
