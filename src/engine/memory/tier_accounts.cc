// See tier_accounts.h.
#include "engine/memory/tier_accounts.h"

#include "engine/broken.h"
#include "engine/memory/stale_entries.h"

namespace spillway {

TierAccounts::TierAccounts(Space& space, const std::array<Bytes, kTierCount>& capacity_bytes)
    : space_(&space) {
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    accounts_[tier].capacity_bytes = accounts_[tier].limit_bytes = capacity_bytes[tier];
  }
}

// Far frames have an account of their own.
Bytes TierAccounts::bytes_in(const Block& block, Tier tier) {
  return tier == Tier::kDevice ? device_bytes(block) : block.bytes;
}

void TierAccounts::set_host_mapped(BlockId id) {
  Block& block = space_->block(id);
  assert(!block.host_mapped && !block.frames.has(Tier::kDevice));
  block.host_mapped = true;
  host_mapped_bytes_ += block.bytes;
}

void TierAccounts::end_host_mapped(BlockId id) {
  Block& block = space_->block(id);
  assert(block.host_mapped && !block.frames.has(Tier::kDevice));
  block.host_mapped = false;
  host_mapped_bytes_ -= block.bytes;
}

void TierAccounts::set_capacity(Tier tier, Bytes bytes) {
  Account& account = at(tier);
  account.capacity_bytes = bytes;
  account.limit_bytes = std::max(bytes, account.used_bytes);
}

void TierAccounts::take(BlockId id, Tier tier) {
  Block& block = space_->block(id);
  Account& account = at(tier);
  assert(!block.frames.has(tier));
  const Bytes bytes = bytes_in(block, tier);
  assert(bytes == 0 || account.used_bytes + bytes <= account.capacity_bytes);
  change(id, [&] { block.frames.add(tier); });
  account.used_bytes += bytes;
}

void TierAccounts::give_back(BlockId id, Tier tier) {
  Block& block = space_->block(id);
  Account& account = at(tier);
  assert(block.frames.has(tier) && account.used_bytes >= bytes_in(block, tier));
  remove_spare(id, tier);
  change(id, [&] { block.frames.remove(tier); });
  block.copies.remove(tier);
  account.used_bytes -= bytes_in(block, tier);
  account.limit_bytes = std::max(account.capacity_bytes, account.used_bytes);
}

void TierAccounts::add_spare(BlockId id, Tier tier) {
  Block& block = space_->block(id);
  Account& account = at(tier);
  assert(block.copies.has(tier) && block.copies.has(Tier::kDevice));
  if (block.spare.has(tier)) {
    return;
  }
  change(id, [&] { block.spare.add(tier); });
  account.spare_bytes += block.bytes;
  account.spare.push_back(id);
  forget_stale_entries(
      account.spare, space_->block_slots(), [](BlockId one) { return one; },
      [&](BlockId one) { return !space_->block(one).spare.has(tier); });
}

void TierAccounts::remove_spare(BlockId id, Tier tier) {
  Block& block = space_->block(id);
  if (block.spare.has(tier)) {
    change(id, [&] { block.spare.remove(tier); });
    at(tier).spare_bytes -= block.bytes;
  }
}

void TierAccounts::keep_room(BlockId id) {
  if (keeps_room_.insert(id).second) {
    kept_bytes_ += kept_for(id);
  }
}

void TierAccounts::end_keeping_room(BlockId id) {
  kept_bytes_ -= kept_for(id);
  keeps_room_.erase(id);
}

std::optional<BlockId> TierAccounts::spare_in_the_way(Tier tier, Bytes bytes) {
  Account& account = at(tier);
  if (account.used_bytes + bytes <= account.capacity_bytes) {
    return std::nullopt;
  }
  while (!account.spare.empty()) {
    const BlockId id = account.spare.front();
    account.spare.pop_front();
    if (space_->block(id).spare.has(tier)) {
      return id;
    }
  }
  return std::nullopt;
}

Status TierAccounts::check() const {
  std::array<Bytes, kTierCount> used{};
  std::array<Bytes, kTierCount> spare{};
  Bytes host_mapped = 0;
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    host_mapped += block.host_mapped ? block.bytes : 0;
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      used[index_of(tier)] += block.frames.has(tier) ? bytes_in(block, tier) : 0;
      spare[index_of(tier)] += block.spare.has(tier) ? block.bytes : 0;
    }
    if (!block.frames.contains(block.copies)) {
      return broken(id, "a copy without a frame");
    }
    if (!block.copies.contains(block.spare) ||
        (!block.spare.empty() && !block.copies.has(Tier::kDevice))) {
      return broken(id, "its only copy counts as one that may go");
    }
  }
  Bytes kept = 0;
  for (const BlockId id : keeps_room_) {
    kept += kept_for(id);
  }
  if (kept != kept_bytes_) {
    return broken_sum("kept for updates", kept_bytes_, kept);
  }
  if (const Account& host = at(Tier::kHost);
      kept > 0 && host.used_bytes - host.spare_bytes + kept > host.limit_bytes) {
    return broken("host memory has not the room that is kept for updates");
  }
  if (host_mapped != host_mapped_bytes_) {
    return broken_sum("far", host_mapped_bytes_, host_mapped);
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    const Account& account = at(tier);
    if (used[index_of(tier)] != account.used_bytes || account.used_bytes > account.limit_bytes) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: {} holds {} bytes, its account says {} of at most {}",
                        name_of(tier), used[index_of(tier)], account.used_bytes,
                        account.limit_bytes);
    }
    if (spare[index_of(tier)] != account.spare_bytes) {
      return broken_sum("spare copies", account.spare_bytes, spare[index_of(tier)]);
    }
  }
  return {};
}

}  // namespace spillway
