// While everything fits: launches of which nobody is told. See driven_platform.h; docs/cuda.md.
#include <algorithm>
#include <utility>

#include "platform/cuda/driven_platform.h"

namespace spillway::cuda {
namespace {

// What keeps the memory of launches that nobody was told of is no launch of the program's.
constexpr std::uint32_t kHoldTag = ~std::uint32_t{0};
constexpr std::size_t kMostHolds = 64;

}  // namespace

bool DrivenPlatform::is_hold(std::uint64_t tag) { return tag == kHoldTag; }

// Small allocations share frames, which may be nearly empty: so what has been counted here as
// alive must leave room as well.
bool DrivenPlatform::recycles_unannounced(Bytes bytes) const {
  constexpr Bytes kFreePart = 16;
  const Bytes budget_bytes = budget_bytes_.load(std::memory_order_relaxed);
  const Bytes with_placed_bytes = bytes + memory_->living_placed_bytes();
  return calls_.is_open() &&
         std::max(with_placed_bytes, live_bytes_.load(std::memory_order_relaxed)) <=
             budget_bytes - budget_bytes / kFreePart;
}

// --- A call -------------------------------------------------------------------------------------

bool DrivenPlatform::begin_bypassed(CuStream stream) {
  if (!calls_.is_open() || !may_bypass_on(stream)) {
    return false;
  }
  const CuStream meant = canonical(stream);
  CuContext context = nullptr;
  if (meant == nullptr) {
    (void)driver_.context_get_current(&context);
  }
  switch (calls_.begin(meant, context)) {
    case BypassedCalls::Begun::kBypassed:
      return true;
    case BypassedCalls::Begun::kMarked: {
      Lock lock(mutex_);
      take_mark(lock);
      return false;
    }
    case BypassedCalls::Begun::kTracked:
      break;
  }
  Lock lock(mutex_);
  const StreamId id = stream_of(meant, lock);
  if (!calls_.is_open() || broken_) {
    return false;
  }
  note_bypassed(meant, id);
  return true;
}

bool DrivenPlatform::may_bypass_on(CuStream stream) {
  return !is_per_thread(stream) && !BypassedCalls::thread_ends();
}

void DrivenPlatform::end_bypassed() {
  if (!calls_.end()) {
    Lock lock(mutex_);
    take_mark(lock);
  }
}

// With the last of them the launch that stands for them has been made, and may be waited for.
void DrivenPlatform::take_mark(Lock& lock) {
  const std::uint32_t tag = calls_.take_mark();
  const StreamId stream = launches_.at(tag).stream;
  if (launches_.bypassed_ended(tag)) {
    put_marker(stream, lock);
  }
  launches_.bypassed_covered(stream);
  changed_.notify_all();
  queue_->wake();
}

void DrivenPlatform::note_bypassed(CuStream stream, StreamId id) {
  calls_.begin_seen(stream, stream == nullptr ? launches_.context_of(id) : nullptr, id);
  if (std::find(bypass_.streams.begin(), bypass_.streams.end(), id) == bypass_.streams.end()) {
    bypass_.streams.push_back(id);
  }
}

// Of one that has come all the same.
bool DrivenPlatform::may_be_bypassed(CuStream stream, const std::vector<Access>& accesses) {
  if (!bypass_.on || !may_bypass_on(stream)) {
    return false;
  }
  settle_those_ready();
  const bool all_settled = std::all_of(
      accesses.begin(), accesses.end(),
      [this](const Access& access) { return bypassed_memory_.settled(access.allocation); });
  if (all_settled) {
    ++bypass_.looked_at;
    bypass_.seen_closed += calls_.is_open() ? 0U : 1U;
  }
  return all_settled;
}

// --- Memory -------------------------------------------------------------------------------------

// Whether it has all of its memory.
bool DrivenPlatform::is_whole(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId at = allocation.first_block + i;
    const Block& block = engine_.space().block(at);
    if (!block.mapped || block.evicting || block.transfer != kNoIndex || !backing_.is_there(at)) {
      return false;
    }
  }
  return true;
}

Access DrivenPlatform::all_of_it(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  return {.allocation = id,
          .first_block = allocation.first_block,
          .block_count = allocation.block_count,
          .mode = AccessMode::kReadWrite};
}

void DrivenPlatform::settle(AllocationId id, std::vector<Access>& settled) {
  bypassed_memory_.settle(id);
  settled.push_back(all_of_it(id));
}

// Its blocks are pinned from now on: a launch, to the engine, that runs until bypass mode is over.
void DrivenPlatform::hold(std::vector<Access> accesses) {
  if (!accesses.empty()) {
    bypass_.holds.push_back(keep(std::move(accesses)));
  }
}

LaunchId DrivenPlatform::keep(std::vector<Access> accesses) {
  Launch held;
  held.tag = kHoldTag;
  held.execution = AdmissionGovernor::kBypassed;
  held.accesses = std::move(accesses);
  return issue_bypassed(held);
}

// Nothing that it names has to come, and nobody stands before it.
LaunchId DrivenPlatform::issue_bypassed(const Launch& launch) {
  governor_.let_all_in(true);
  const LaunchAdmission admission = engine_.issue_launch(launch);
  governor_.let_all_in(false);
  if (admission.state != LaunchState::kReady && !std::exchange(broken_, true)) {
    failures_.fatal({ErrorCode::kDefect, "what is on the device could not be kept there"});
  }
  return admission.id;
}

// What launches that were told of have used for the first time, or again, may have its memory now.
void DrivenPlatform::settle_those_ready() {
  if ((bypass_.used.empty() && bypass_.ordered_by == kNoLaunch) || launches_.unreleased() > 0) {
    return;
  }
  std::vector<Access> settled;
  const bool has_ordered = settle_ordered(settled);
  std::erase_if(bypass_.used, [&](AllocationId id) {
    if (bypassed_memory_.is_unsettled(id) && is_whole(id)) {
      settle(id, settled);
    }
    // Where nothing is on its way any more, the next launch that uses it names it again.
    return !bypassed_memory_.is_unsettled(id) || launches_.waiting() == 0;
  });
  hold(std::move(settled));
  if (has_ordered) {
    end_ordered();  // what keeps it from now on has been issued
  }
  if (bypass_.holds.size() > kMostHolds) {
    hold_together();
  }
  open_calls();
}

// Memory that was allocated, and that no launch has used for a while (a workspace that no kernel
// wanted), would have all calls looked at for ever. Where there is ample room it gets its frames,
// as from the driver it would have had them when it was allocated. In portions, so that no launch
// waits long behind it; and none of it where not all of it can be had, which would gain nothing.
void DrivenPlatform::order_what_nobody_uses(Lock& lock) {
  constexpr Bytes kPortionBytes = 256 * kMiB;
  constexpr Bytes kFreePart = 2;
  const auto may_order = [this] {
    return bypass_.on && bypass_.ordered_by == kNoLaunch && governor_.all_fits() &&
           launches_.unreleased() == 0;
  };
  bypass_.seen_closed = 0;
  if (!may_order()) {
    return;
  }
  // Others may use the card, and what nobody wants is no reason to make do with less of it.
  std::size_t free_there_bytes = 0;
  std::size_t device_bytes = 0;
  lock.unlock();
  const CuResult asked = driver_.memory_info(&free_there_bytes, &device_bytes);
  lock.lock();
  if (!may_order()) {
    return;
  }
  Bytes all_bytes = 0;
  Bytes ordered_bytes = 0;
  bool all = asked == CuResult::kSuccess;
  std::vector<Access> ordered;
  bypassed_memory_.for_each_unsettled([&](AllocationId id) {
    const std::optional<Bytes> bytes = bytes_to_order(id);
    all = all && bytes.has_value();
    all_bytes += bytes.value_or(0);
    if (ordered_bytes < kPortionBytes) {
      ordered_bytes += bytes.value_or(0);
      ordered.push_back(all_of_it(id));
      ordered.back().mode = AccessMode::kRead;  // as undefined as before, it leaves without a copy
    }
  });
  const Bytes free_bytes = std::min<Bytes>(free_there_bytes, engine_.free_bytes(Tier::kDevice));
  if (!all || all_bytes > free_bytes / kFreePart) {
    bypass_.order_after = std::min(2 * bypass_.order_after, options_.bypass_after_at_most);
    return;
  }
  bypass_.ordered = std::move(ordered);
  bypass_.ordered_by = keep(bypass_.ordered);
}

// Of blocks without frames. None where something of it would have to come, or is on its way.
std::optional<Bytes> DrivenPlatform::bytes_to_order(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  Bytes bytes = 0;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const Block& block = engine_.space().block(allocation.first_block + i);
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
bool DrivenPlatform::settle_ordered(std::vector<Access>& settled) {
  if (bypass_.ordered_by == kNoLaunch ||
      !std::all_of(bypass_.ordered.begin(), bypass_.ordered.end(),
                   [this](const Access& access) { return is_whole(access.allocation); })) {
    return false;
  }
  for (const Access& access : bypass_.ordered) {
    if (bypassed_memory_.is_unsettled(access.allocation)) {
      settle(access.allocation, settled);
    }
  }
  return true;
}

void DrivenPlatform::end_ordered() {
  if (bypass_.ordered_by != kNoLaunch) {
    engine_.end_launch(std::exchange(bypass_.ordered_by, kNoLaunch));
    bypass_.ordered.clear();
  }
}

// It dies, which takes effect only when nothing uses it.
void DrivenPlatform::end_ordered_with(AllocationId id) {
  if (std::any_of(bypass_.ordered.begin(), bypass_.ordered.end(),
                  [id](const Access& access) { return access.allocation == id; })) {
    end_ordered();
  }
}

void DrivenPlatform::hold_together() {
  const std::vector<LaunchId> before = std::exchange(bypass_.holds, {});
  hold(all_settled());
  for (const LaunchId id : before) {
    engine_.end_launch(id);
  }
}

std::vector<Access> DrivenPlatform::all_settled() const {
  std::vector<Access> all;
  bypassed_memory_.for_each_settled([&](AllocationId id) { all.push_back(all_of_it(id)); });
  return all;
}

void DrivenPlatform::open_calls() {
  const bool open = bypass_.on && bypassed_memory_.unsettled() == 0;
  if (open != calls_.is_open()) {
    calls_.set_open(open);
    bypass_.seen_closed = 0;
  }
}

// --- From tracking launches to bypass mode and back
// ----------------------------------------------------------------

void DrivenPlatform::consider_bypass() {
  if (bypass_.on || ++bypass_.tracked < bypass_.after) {
    return;
  }
  bypass_.tracked = 0;
  const bool calm =
      governor_.all_fits() && launches_.waiting() == 0 && held_ == 0 &&
      launches_.oversized() == 0 && updates_.any() == 0 && engine_.transfers_in_flight() == 0 &&
      (captures_ == nullptr || *captures_ == 0) && !said_no_memory_ && !broken_ &&
      log_.events() == nullptr && recomputing_.at_rest() && engine_.host_mapped_bytes() == 0;
  if (!calm) {
    return;
  }
  recomputing_.forget_all();
  bypass_.on = true;
  bypass_.calls_before = calls_.calls();
  bypass_.seen_closed = 0;
  bypass_.order_after = options_.bypass_after;
  calls_.begin_bypass();
  std::vector<Access> settled;
  bypassed_memory_.for_each_unsettled([&](AllocationId id) {
    if (is_whole(id)) {
      settle(id, settled);
    }
  });
  hold(std::move(settled));
  open_calls();
}

// Launches that nobody was told of may be on their way on any stream that had one, and use anything
// that was settled: to the engine that is one launch on each of these streams.
void DrivenPlatform::leave_bypass() {
  if (!bypass_.on) {
    return;
  }
  bypass_.on = false;
  end_ordered();
  const std::vector<Access> all = all_settled();
  std::vector<std::uint32_t> tags(launches_.streams(), kHoldTag);
  for (const StreamId id : bypass_.streams) {
    order_.put_on(id);
    Launch placeholder;
    placeholder.tag = tags[id] = launches_.begin(id, kNoLogRow, all);
    placeholder.stream = id;
    placeholder.execution = AdmissionGovernor::kBypassed;
    placeholder.reaches = true;
    placeholder.accesses = all;
    launches_.issued(tags[id], issue_bypassed(placeholder));
  }
  calls_.close([&](StreamId id) {
    launches_.bypassed_begun(tags[id]);
    return tags[id];
  });
  for (const StreamId id : bypass_.streams) {
    launches_.made_if_none_bypassed(tags[id]);
  }
  for (const LaunchId id : bypass_.holds) {
    engine_.end_launch(id);
  }
  for (const AllocationId id : bypassed_memory_.end()) {
    engine_.discard(id, DiscardMode::kLazy);
  }
  // To leave and come again costs as much as a launch that is told of for each ten of what is
  // settled, on each stream and once more.
  constexpr std::uint64_t kWorthItTimes = 4;
  const std::uint64_t cost = all.size() * (bypass_.streams.size() + 1) / 10;
  const std::uint64_t calls = calls_.calls() - bypass_.calls_before;
  bypass_.after = calls > std::max(kWorthItTimes * options_.bypass_after, cost)
                      ? options_.bypass_after
                      : std::min(options_.bypass_after_at_most, 4 * bypass_.after);
  bypass_.tracked = 0;
  bypass_.streams.clear();
  bypass_.holds.clear();
  bypass_.used.clear();
}

// It may wait for what only comes later: nothing more than its own memory must wait with it, so
// what stands for the calls before it gets its completion marker now.
void DrivenPlatform::will_wait_for_value() {
  Lock lock(mutex_);
  leave_bypass();
  waits_for_values_ = true;
  bypass_.after = options_.bypass_after_at_most;
  put_markers(lock);
}

// What still has to be put on streams must not be captured, what stands for calls of which nobody
// was told least of all: so there is nothing of that kind until the capture has ended.
void DrivenPlatform::capture_begins() {
  {
    Lock lock(mutex_);
    leave_bypass();
    remake_all(std::nullopt, lock);
  }
  before_wait(std::nullopt);
}

void DrivenPlatform::watch_captures(const std::atomic<int>& under_way) {
  const Lock lock(mutex_);
  captures_ = &under_way;
}

}  // namespace spillway::cuda
