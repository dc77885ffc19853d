// What updates will use that are issued and not admitted yet: it comes from storage to host memory
// meanwhile, as far as there is room. See engine.h; docs/engine.md, "Updates".
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace spillway {
namespace {

// So much of host memory stays for what admitted updates and evictions bring there.
constexpr Bytes kLeftPart = 8;

}  // namespace

// In the order of issue. What has been updated, and is needed last, makes room.
void Engine::fetch_ahead_for_updates() {
  const Bytes left_bytes = capacity_bytes(Tier::kHost) / kLeftPart;
  while (!updates_.waiting() && !update_lane_.full()) {
    Transfer transfer{.from = Tier::kStorage, .to = Tier::kHost, .cause = Cause::kPrefetch};
    while (transfer.bytes < options_.storage_batch_bytes) {
      const BlockId id = updates_ahead_.next([this](BlockId one) { return lies_in_storage(one); });
      if (id == kNoBlock) {
        break;
      }
      const Bytes need_bytes = space_.block(id).bytes + left_bytes;
      if (tiers_.room_for(id, Tier::kHost) < need_bytes && transfer.blocks.empty()) {
        move_updated_down(need_bytes);  // which starts transfers: none may be half put together
      }
      if (tiers_.room_for(id, Tier::kHost) < need_bytes) {
        break;
      }
      take_frame(id, Tier::kHost);
      in_flight_transfers_.add(transfer, id);
    }
    if (transfer.blocks.empty()) {
      return;
    }
    start(std::move(transfer), update_lane_);
  }
}

// Alive in storage alone, and nobody uses or moves it.
bool Engine::lies_in_storage(BlockId id) const {
  const Block& block = space_.block(id);
  return block.contents == Contents::kLive && block.copies.has(Tier::kStorage) &&
         !block.frames.has(Tier::kHost) && !block.frames.has(Tier::kDevice) &&
         block.transfer == kNoIndex && block.fetch == FetchState::kNone && block.pins == 0;
}

// Until so much of host memory is free, or will be.
void Engine::move_updated_down(Bytes need_bytes) {
  if (move_down_lane_.in_flight > 0) {
    return;
  }
  std::vector<BlockId> leaving;
  Bytes leaving_bytes = 0;
  while (free_bytes(Tier::kHost) + leaving_bytes < need_bytes) {
    const BlockId victim = updates_.last_updated([&](BlockId id) {
      return can_move_down(id) && !updates_ahead_.names(id) &&
             std::find(leaving.begin(), leaving.end(), id) == leaving.end() &&
             free_bytes(Tier::kStorage) >= leaving_bytes + space_.block(id).bytes;
    });
    if (victim == kNoBlock) {
      break;
    }
    leaving.push_back(victim);
    leaving_bytes += space_.block(victim).bytes;
    evictions_.wish_down(victim);
  }
  form_moves_down();
}

}  // namespace spillway
