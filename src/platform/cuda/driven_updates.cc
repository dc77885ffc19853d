// Which updates run at the host, and what the program's thread does for that. See
// driven_platform.h; docs/cuda.md, "Updates".
#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/memory/for_each_block.h"
#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

Bytes operand_bytes(std::span<const std::vector<ProgramOperand>> parts) {
  Bytes bytes = 0;
  for (const std::vector<ProgramOperand>& part : parts) {
    bytes += std::accumulate(
        part.begin(), part.end(), Bytes{0},
        [](Bytes sum, const ProgramOperand& operand) { return sum + operand.bytes; });
  }
  return bytes;
}

}  // namespace

// Where all fits nothing moves, and nothing is to. A captured stream runs later. A value may be
// written by what is issued later, or by nobody of whom we hear: then the order of issue says
// nothing.
bool DrivenPlatform::has_updates() const {
  return !broken_ && !bypass_.is_on() && !governor_.all_fits() && !waits_for_values_ &&
         (captures_ == nullptr || *captures_ == 0);
}

bool DrivenPlatform::takes_updates() {
  const Lock lock(mutex_);
  return has_updates();
}

// Others than launches that name them may use some on the device at any time; and a frame that
// small allocations share would keep all of them from the device.
bool DrivenPlatform::may_be_at_host(const Launch& update) const {
  bool may = true;
  const Space& space = engine_.space();
  for_each_block(update, [&](BlockId id, const Access& access) {
    const Block& block = space.block(id);
    const bool shared = space.allocation(access.allocation).packed;
    may = may && block.fixed == 0 && !block.exposed && (!shared || !writes(access.mode));
  });
  return may;
}

std::vector<UpdateId> DrivenPlatform::begin_updates(
    std::span<const std::vector<ProgramOperand>> parts, CuStream stream) {
  if (bypass_.calls().is_open() || parts.empty() || parts.front().empty() ||
      !contains(reinterpret_cast<std::uint64_t>(parts.front().front().start))) {
    return {};
  }
  Lock lock(mutex_);
  std::vector<Launch> launches;
  Launch whole;
  TimeNs sign_ns = 0;
  Bytes host_bytes = 0;
  for (bool ready = false; !ready;) {
    if (!has_updates()) {
      return {};
    }
    std::optional<std::vector<Launch>> found = launches_of(parts, whole);
    if (!found) {
      return {};
    }
    launches = std::move(*found);
    const StreamId id = stream_of(canonical(stream));
    const std::optional<Recomputing::Step> step = step_before_update(whole, id);
    if (step) {
      carry_out(*step, sign_ns);
    }
    ready = !step && has_updates();
    if (ready) {
      const std::optional<Bytes> placed = place_at_host(whole);
      if (!placed) {
        return {};
      }
      host_bytes = *placed;
      recomputing_.issued(whole.accesses, id, launches_.stream(id).issued);
    }
  }
  if (std::any_of(whole.accesses.begin(), whole.accesses.end(),
                  [this](const Access& access) { return memory_->is_newest(access.allocation); })) {
    newest_stays();
  }
  // What is issued from now on may wait for it, and it for what was issued before: they must not
  // wait for each other at one stream wait.
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    launches_.stream(id).shared.forget();
  }
  const std::vector<AllocationId> withheld = recomputing_.withhold(whole.accesses);
  const double share = static_cast<double>(host_bytes) / static_cast<double>(operand_bytes(parts));
  std::vector<UpdateId> begun;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double part_bytes = share * static_cast<double>(operand_bytes(parts.subspan(i, 1)));
    begun.push_back(
        updates_.begin(std::move(launches[i]), parts[i], static_cast<Bytes>(part_bytes)));
  }
  recomputing_.offer(withheld);
  set_limits();
  issued_before_updates_ = launches_.issued_by_stream();
  put_markers();
  queue_->wake();
  return begun;
}

// Of all parts together in `whole`. nullopt: they are not to run at the host.
std::optional<std::vector<Launch>> DrivenPlatform::launches_of(
    std::span<const std::vector<ProgramOperand>> parts, Launch& whole) const {
  whole = {};
  whole.runs_at = Tier::kHost;
  std::vector<Launch> launches;
  for (const std::vector<ProgramOperand>& part : parts) {
    std::optional<Launch> launch = DeviceUpdates::launch_of(part, *memory_);
    if (!launch || !may_be_at_host(*launch)) {
      return std::nullopt;
    }
    for (const Access& access : launch->accesses) {
      add_to(whole, access);
    }
    launches.push_back(std::move(*launch));
  }
  return launches;
}

// How many bytes the processor will move for it; nullopt: it runs on the device.
std::optional<Bytes> DrivenPlatform::place_at_host(const Launch& whole) {
  if (std::none_of(whole.accesses.begin(), whole.accesses.end(),
                   [](const Access& access) { return writes(access.mode); })) {
    // What only reads has no other place to run, and nothing is computed.
    return keep_room_at_host(whole) ? std::optional<Bytes>(0) : std::nullopt;
  }
  const UpdateBalance::Placement placement = updates_.place(whole);
  if (placement.runs_at != Tier::kHost) {
    return std::nullopt;
  }
  if (!keep_room_at_host(whole)) {
    updates_.withdrawn(whole, placement.host_bytes);
    return std::nullopt;
  }
  return placement.host_bytes;
}

// Each block of a tensor once: parts end in the middle of blocks.
void DrivenPlatform::add_to(Launch& whole, const Access& access) {
  const auto same =
      std::find_if(whole.accesses.begin(), whole.accesses.end(), [&](const Access& other) {
        return other.allocation == access.allocation && other.mode == access.mode &&
               other.to_bytes == access.from_bytes;
      });
  if (same == whole.accesses.end()) {
    whole.accesses.push_back(access);
    return;
  }
  same->block_count = access.first_block + access.block_count - same->first_block;
  same->to_bytes = access.to_bytes;
}

// As before a launch; and what it writes is made by no launch that is known.
std::optional<Recomputing::Step> DrivenPlatform::step_before_update(const Launch& whole,
                                                                    StreamId stream) {
  if (recomputing_.empty()) {
    return std::nullopt;
  }
  if (const std::optional<Recomputing::Step> step =
          recomputing_.before_launch(whole.accesses, stream, kNoAllocation)) {
    return step;
  }
  for (const Access& access : whole.accesses) {
    if (!writes(access.mode)) {
      continue;
    }
    if (const std::optional<Recomputing::Step> step =
            recomputing_.before_divide(access.allocation)) {
      return step;
    }
    recomputing_.divided(access.allocation);
  }
  return std::nullopt;
}

// Nobody can take an update back: so all that it needs of host memory is kept for it, and it is
// counted as if that were in use. Where there is no room, there will be for later ones.
bool DrivenPlatform::keep_room_at_host(const Launch& whole) {
  const Bytes more_bytes = engine_.more_kept_bytes(whole);
  const Bytes limit_bytes =
      most_promised_bytes(host_budget_.limit_bytes(engine_.host_mapped_bytes()));
  if (updates_.any() < DeviceUpdates::kMost &&
      memory_->promised_bytes() + more_bytes <= limit_bytes &&
      more_bytes <= engine_.free_bytes(Tier::kHost)) {
    engine_.keep_room(whole);
    return true;
  }
  want_pinned(engine_.used_bytes(Tier::kHost) + engine_.kept_for_updates_bytes() + more_bytes +
              2 * options_.pinned_piece_bytes);
  if (host_budget_.pinned_bytes() >= host_budget_.most_pinned_bytes(most_host_mapped_bytes())) {
    engine_.make_room_for_updates(more_bytes);
  }
  return false;
}

std::optional<UpdateId> DrivenPlatform::next_update() {
  Lock lock(mutex_);
  return updates_.next(mutex_, broken_);
}

std::vector<Extents> DrivenPlatform::update_extents(UpdateId update) const {
  const Lock lock(mutex_);
  return updates_.extents(update, *memory_, *host_);
}

void DrivenPlatform::end_update(UpdateId update) {
  {
    const Lock lock(mutex_);
    updates_.end(update);
    set_limits();
  }
  changed_.notify_all();
  queue_->wake();
}

void DrivenPlatform::send_to_host(std::uint64_t address, Bytes bytes) {
  if (bypass_.calls().is_open() || !contains(address)) {
    return;
  }
  const Lock lock(mutex_);
  if (!has_updates()) {
    return;
  }
  const ProgramOperand operand{.start = reinterpret_cast<void*>(address),  // NOLINT
                               .bytes = bytes,
                               .mode = AccessMode::kRead};
  const std::optional<Launch> used = DeviceUpdates::launch_of({&operand, 1}, *memory_);
  if (used && may_be_at_host(*used)) {
    engine_.send_to_host(*used);
  }
}

// An allocation for which there would be room without what is kept for updates waits for their end,
// which nothing that the program does later is needed for.
void DrivenPlatform::let_updates_end(Bytes bytes) {
  const auto has_room = [&] { return memory_->promised_bytes() + bytes <= memory_->limit_bytes(); };
  if (updates_.any() > 0 && !has_room()) {
    wait_until([&]() SPILLWAY_REQUIRES(mutex_) { return updates_.any() == 0 || has_room(); });
  }
}

// Whether an update may wait for this launch, behind which no completion marker could stand when
// the update was issued.
bool DrivenPlatform::update_may_wait_for(StreamId stream, std::uint64_t number) const {
  return updates_.some_wait() && stream < issued_before_updates_.size() &&
         number <= issued_before_updates_[stream];
}

// Its place may hold anything: so may new memory on the device.
void DrivenPlatform::zero_at_host(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    if (!host_ranges_.take(id, bytes_of(id)) && !std::exchange(broken_, true)) {
      failures_.fatal({ErrorCode::kDefect, "no host memory for an update, which it was promised"});
    }
  }
}

}  // namespace spillway::cuda
