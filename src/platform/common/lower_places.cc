// See lower_places.h.
#include "platform/common/lower_places.h"

#include <utility>

#include "base/grown_at.h"

namespace spillway {

bool LowerPlaces::take(BlockId block, Tier tier, Bytes bytes) {
  Places& in = places(tier);
  const std::optional<std::uint64_t> place = in.slots.take(bytes);
  if (!place) {
    return false;
  }
  grown_at(in.at, block, kNoPlace) = *place;
  return true;
}

void LowerPlaces::give_back(BlockId block, Tier tier, Bytes bytes) {
  Places& in = places(tier);
  if (block >= in.at.size() || in.at[block] == kNoPlace) {
    return;
  }
  const std::uint64_t was = std::exchange(in.at[block], kNoPlace);
  if (in.kept.give_up(was)) {
    in.slots.give_back(was, bytes);
  }
}

std::uint64_t LowerPlaces::at(BlockId block, Tier tier) const {
  const Places& in = tiers_[tier == Tier::kHost ? 0 : 1];
  return block < in.at.size() ? in.at[block] : kNoPlace;
}

bool LowerPlaces::is_kept(BlockId block, Tier tier) {
  return places(tier).kept.is_kept(at(block, tier));
}

KeptPlace LowerPlaces::keep(BlockId block, Tier tier, Bytes bytes) {
  const std::uint64_t place = at(block, tier);
  places(tier).kept.keep(place);
  KeptPlace kept{.bytes = bytes};
  (tier == Tier::kHost ? kept.host : kept.storage) = place;
  return kept;
}

void LowerPlaces::keep_again(const Snapshot& snapshot) {
  for (const auto& [id, kept] : snapshot) {
    if (kept.host != kNoPlace) {
      places(Tier::kHost).kept.keep(kept.host);
    } else {
      places(Tier::kStorage).kept.keep(kept.storage);
    }
  }
}

void LowerPlaces::release(const Snapshot& snapshot) {
  for (const auto& [id, kept] : snapshot) {
    if (kept.host != kNoPlace && places(Tier::kHost).kept.unkeep(kept.host)) {
      places(Tier::kHost).slots.give_back(kept.host, kept.bytes);
    }
    if (kept.storage != kNoPlace && places(Tier::kStorage).kept.unkeep(kept.storage)) {
      places(Tier::kStorage).slots.give_back(kept.storage, kept.bytes);
    }
  }
}

}  // namespace spillway
