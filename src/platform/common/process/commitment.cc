// See commitment.h.
#include "platform/common/process/commitment.h"

#include <algorithm>

namespace spillway {
namespace {

// Of the lower tiers, what allocations cannot claim: somewhere for a victim to go first.
constexpr Bytes kExchangeBytes = 16 * kMiB;

}  // namespace

Status Commitment::promise(Bytes bytes, const std::array<Bytes, kTierCount>& capacity_bytes) {
  const auto of = [&](Tier tier) { return capacity_bytes[index_of(tier)]; };
  const Bytes below_bytes = of(Tier::kHost) + of(Tier::kStorage);
  const Bytes limit_bytes = of(Tier::kDevice) + below_bytes - std::min(below_bytes, kExchangeBytes);
  if (!promise_within(bytes, limit_bytes)) {
    return make_error(
        ErrorCode::kUnsupported,
        "out of memory: {} asked for, {} in use; the budget is {} of device memory, {} of host "
        "memory and {} of storage; raise --host-memory or --storage",
        format_bytes(bytes), format_bytes(bytes_), format_bytes(of(Tier::kDevice)),
        format_bytes(of(Tier::kHost)), format_bytes(of(Tier::kStorage)));
  }
  return {};
}

bool Commitment::promise_within(Bytes bytes, Bytes limit_bytes) {
  if (bytes > limit_bytes || bytes_ > limit_bytes - bytes) {
    return false;
  }
  bytes_ += bytes;
  peak_before_bytes_ = peak_bytes_;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return true;
}

}  // namespace spillway
