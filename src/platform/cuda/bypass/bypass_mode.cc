// See bypass_mode.h.
#include "platform/cuda/bypass/bypass_mode.h"

#include <utility>

namespace spillway::cuda {
namespace {

constexpr std::uint32_t kHoldTag = ~std::uint32_t{0};
constexpr std::size_t kMostHolds = 64;

}  // namespace

bool BypassMode::is_hold(std::uint64_t tag) { return tag == kHoldTag; }

// --- Entering and leaving -----------------------------------------------------------------------

bool BypassMode::is_due() {
  if (on_ || ++tracked_ < after_) {
    return false;
  }
  tracked_ = 0;
  return true;
}

void BypassMode::enter() {
  on_ = true;
  calls_before_ = calls_.calls();
  seen_closed_ = 0;
  order_after_ = options_.after;
  calls_.begin_period();
  std::vector<Access> settled;
  memory_.for_each_unsettled([&](AllocationId id) {
    if (is_whole(id)) {
      settle(id, settled);
    }
  });
  hold(std::move(settled));
  open_calls();
}

void BypassMode::leave() {
  if (!on_) {
    return;
  }
  on_ = false;
  end_ordered();
  const std::vector<Access> all = all_settled();
  std::vector<std::uint32_t> tags(parts_.launches.streams(), kHoldTag);
  for (const StreamId id : streams_) {
    parts_.order.put_on(id);
    Launch placeholder;
    placeholder.tag = tags[id] = parts_.launches.begin(id, kNoLogRow, all);
    placeholder.stream = id;
    placeholder.execution = AdmissionGovernor::kPlaceholder;
    placeholder.reaches = true;
    placeholder.accesses = all;
    parts_.launches.issued(tags[id], issue(placeholder));
  }
  calls_.close([&](StreamId id) {
    parts_.launches.bypassed_begun(tags[id]);
    return tags[id];
  });
  for (const StreamId id : streams_) {
    parts_.launches.made_if_none_bypassed(tags[id]);
  }
  for (const LaunchId id : holds_) {
    parts_.engine.end_launch(id);
  }
  for (const AllocationId id : memory_.end()) {
    parts_.engine.discard(id, DiscardMode::kLazy);
  }
  // To leave and come again costs as much as a tracked launch for each ten of what is settled, on
  // each stream and once more.
  constexpr std::uint64_t kWorthItTimes = 4;
  const std::uint64_t cost = all.size() * (streams_.size() + 1) / 10;
  const std::uint64_t calls = calls_.calls() - calls_before_;
  after_ = calls > std::max(kWorthItTimes * options_.after, cost)
               ? options_.after
               : std::min(options_.after_at_most, 4 * after_);
  tracked_ = 0;
  streams_.clear();
  holds_.clear();
  used_.clear();
}

// --- Calls --------------------------------------------------------------------------------------

bool BypassMode::may_bypass(const std::vector<Access>& accesses) {
  if (!on_) {
    return false;
  }
  settle_those_ready();
  const bool all_settled =
      std::all_of(accesses.begin(), accesses.end(),
                  [this](const Access& access) { return memory_.settled(access.allocation); });
  if (all_settled) {
    ++looked_at_;
    seen_closed_ += calls_.is_open() ? 0U : 1U;
  }
  return all_settled;
}

void BypassMode::note_call(CuStream stream, StreamId id) {
  calls_.begin_seen(stream, stream == nullptr ? parts_.launches.context_of(id) : nullptr, id);
  if (!has_calls_on(id)) {
    streams_.push_back(id);
  }
}

void BypassMode::used(AllocationId id) {
  if (memory_.is_unsettled(id)) {
    used_.push_back(id);
  }
}

void BypassMode::open_calls() {
  const bool open = on_ && memory_.unsettled() == 0;
  if (open != calls_.is_open()) {
    calls_.set_open(open);
    seen_closed_ = 0;
  }
}

// --- Memory -------------------------------------------------------------------------------------

void BypassMode::freed(AllocationId id) {
  end_ordered_with(id);
  if (!memory_.freed(id)) {
    leave();
    (void)memory_.freed(id);
  }
}

bool BypassMode::retired(AllocationId id) {
  end_ordered_with(id);
  return memory_.retired(id);
}

bool BypassMode::is_whole(AllocationId id) const {
  const Allocation& allocation = parts_.engine.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId at = allocation.first_block + i;
    const Block& block = parts_.engine.space().block(at);
    if (!block.mapped || block.evicting || block.transfer != kNoIndex ||
        !parts_.backing.is_there(at)) {
      return false;
    }
  }
  return true;
}

Access BypassMode::all_of(AllocationId id) const {
  const Allocation& allocation = parts_.engine.space().allocation(id);
  return {.allocation = id,
          .first_block = allocation.first_block,
          .block_count = allocation.block_count,
          .mode = AccessMode::kReadWrite};
}

void BypassMode::settle(AllocationId id, std::vector<Access>& settled) {
  memory_.settle(id);
  settled.push_back(all_of(id));
}

void BypassMode::hold(std::vector<Access> accesses) {
  if (!accesses.empty()) {
    holds_.push_back(keep(std::move(accesses)));
  }
}

void BypassMode::hold_together() {
  const std::vector<LaunchId> before = std::exchange(holds_, {});
  hold(all_settled());
  for (const LaunchId id : before) {
    parts_.engine.end_launch(id);
  }
}

LaunchId BypassMode::keep(std::vector<Access> accesses) {
  Launch held;
  held.tag = kHoldTag;
  held.execution = AdmissionGovernor::kPlaceholder;
  held.accesses = std::move(accesses);
  return issue(held);
}

// All that it names is there, and nothing stands before it.
LaunchId BypassMode::issue(const Launch& launch) {
  parts_.governor.let_all_in(true);
  const LaunchAdmission admission = parts_.engine.issue_launch(launch);
  parts_.governor.let_all_in(false);
  if (admission.state != LaunchState::kReady) {
    options_.on_defect();
  }
  return admission.id;
}

std::vector<Access> BypassMode::all_settled() const {
  std::vector<Access> all;
  memory_.for_each_settled([&](AllocationId id) { all.push_back(all_of(id)); });
  return all;
}

void BypassMode::settle_those_ready() {
  if ((used_.empty() && ordered_by_ == kNoLaunch) || parts_.launches.unreleased() > 0) {
    return;
  }
  std::vector<Access> settled;
  const bool has_ordered = settle_ordered(settled);
  std::erase_if(used_, [&](AllocationId id) {
    if (memory_.is_unsettled(id) && is_whole(id)) {
      settle(id, settled);
    }
    // Where nothing is on its way any more, the next launch that uses it names it again.
    return !memory_.is_unsettled(id) || parts_.launches.waiting() == 0;
  });
  hold(std::move(settled));
  if (has_ordered) {
    end_ordered();  // what keeps it from now on has been issued
  }
  if (holds_.size() > kMostHolds) {
    hold_together();
  }
  open_calls();
}

// --- Memory that nobody uses --------------------------------------------------------------------

bool BypassMode::may_order() const {
  return on_ && ordered_by_ == kNoLaunch && parts_.governor.all_fits() &&
         parts_.launches.unreleased() == 0;
}

// Others may use the card, and what nobody wants is no reason to make do with less of it.
void BypassMode::order_unused(std::optional<Bytes> free_bytes) {
  constexpr Bytes kPortionBytes = 256 * kMiB;
  constexpr Bytes kFreePart = 2;
  Bytes all_bytes = 0;
  Bytes ordered_bytes = 0;
  bool all = free_bytes.has_value();
  std::vector<Access> ordered;
  memory_.for_each_unsettled([&](AllocationId id) {
    const std::optional<Bytes> bytes = bytes_to_order(id);
    all = all && bytes.has_value();
    all_bytes += bytes.value_or(0);
    if (ordered_bytes < kPortionBytes) {
      ordered_bytes += bytes.value_or(0);
      ordered.push_back(all_of(id));
      ordered.back().mode = AccessMode::kRead;  // as undefined as before, it leaves without a copy
    }
  });
  const Bytes most_bytes =
      std::min(free_bytes.value_or(0), parts_.engine.free_bytes(Tier::kDevice)) / kFreePart;
  if (!all || all_bytes > most_bytes) {
    order_after_ = std::min(2 * order_after_, options_.after_at_most);
    return;
  }
  ordered_ = std::move(ordered);
  ordered_by_ = keep(ordered_);
}

// Of blocks without frames. nullopt where a block would have to come, or is on its way.
std::optional<Bytes> BypassMode::bytes_to_order(AllocationId id) const {
  const Allocation& allocation = parts_.engine.space().allocation(id);
  Bytes bytes = 0;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const Block& block = parts_.engine.space().block(allocation.first_block + i);
    const bool is_elsewhere = !block.copies.has(Tier::kDevice) && !block.copies.empty();
    if (is_elsewhere || block.transfer != kNoIndex || block.evicting ||
        block.fetch != FetchState::kNone) {
      return std::nullopt;
    }
    bytes += block.frames.has(Tier::kDevice) ? 0 : block.bytes;
  }
  return bytes;
}

// True if all of it is there now.
bool BypassMode::settle_ordered(std::vector<Access>& settled) {
  if (ordered_by_ == kNoLaunch ||
      !std::all_of(ordered_.begin(), ordered_.end(),
                   [this](const Access& access) { return is_whole(access.allocation); })) {
    return false;
  }
  for (const Access& access : ordered_) {
    if (memory_.is_unsettled(access.allocation)) {
      settle(access.allocation, settled);
    }
  }
  return true;
}

void BypassMode::end_ordered() {
  if (ordered_by_ != kNoLaunch) {
    parts_.engine.end_launch(std::exchange(ordered_by_, kNoLaunch));
    ordered_.clear();
  }
}

// A death takes effect only when nothing uses the memory.
void BypassMode::end_ordered_with(AllocationId id) {
  if (std::any_of(ordered_.begin(), ordered_.end(),
                  [id](const Access& access) { return access.allocation == id; })) {
    end_ordered();
  }
}

}  // namespace spillway::cuda
