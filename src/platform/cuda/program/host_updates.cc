// Which updates run at the host, and what the program's thread does for that. See host_updates.h;
// docs/cuda.md, "Updates".
#include "platform/cuda/program/host_updates.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "engine/memory/for_each_block.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

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

HostUpdates::HostUpdates(PlatformState& state, PlatformParts& parts)
    : PlatformPart(state, parts), updates_(state.engine, state.host_ranges, state.log) {}

// Where all fits nothing moves, and nothing is to. A captured stream runs later. A value may be
// written by what is issued later, or by nobody of whom we hear: then the order of issue says
// nothing.
bool HostUpdates::has_updates() const {
  return !state_.broken && !state_.bypass.is_on() && !state_.governor.all_fits() &&
         !parts_.streams.waits_for_values() && !parts_.streams.is_capturing();
}

bool HostUpdates::takes_updates() {
  const Lock lock(state_);
  return has_updates();
}

// Others than launches that name them may use some on the device at any time; and a frame that
// small allocations share would keep all of them from the device.
bool HostUpdates::may_be_at_host(const Launch& update) const {
  bool may = true;
  const Space& space = state_.engine.space();
  for_each_block(update, [&](BlockId id, const Access& access) {
    const Block& block = space.block(id);
    const bool shared = space.allocation(access.allocation).packed;
    may = may && block.fixed == 0 && !block.exposed && (!shared || !writes(access.mode));
  });
  return may;
}

std::vector<UpdateId> HostUpdates::begin_updates(std::span<const std::vector<ProgramOperand>> parts,
                                                 CuStream stream) {
  if (state_.bypass.calls().is_open() || parts.empty() || parts.front().empty() ||
      !state_.memory->contains(reinterpret_cast<std::uint64_t>(parts.front().front().start))) {
    return {};
  }
  const Lock lock(state_);
  std::optional<WholeUpdate> update = make_ready(parts, stream);
  if (!update) {
    return {};
  }
  const std::vector<Access>& accesses = update->whole.accesses;
  parts_.allocations.newest_stays_if_among(accesses);
  // What is issued from now on may wait for it, and it for what was issued before: they must not
  // wait for each other at one stream wait.
  for (StreamId id = 0; id < state_.launches.streams(); ++id) {
    state_.launches.stream(id).shared.forget();
  }
  const std::vector<AllocationId> withheld = state_.recomputing.withhold(accesses);
  const double share =
      static_cast<double>(update->host_bytes) / static_cast<double>(operand_bytes(parts));
  std::vector<UpdateId> begun;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double part_bytes = share * static_cast<double>(operand_bytes(parts.subspan(i, 1)));
    begun.push_back(
        updates_.begin(std::move(update->parts[i]), parts[i], static_cast<Bytes>(part_bytes)));
  }
  state_.recomputing.offer(withheld);
  parts_.host.set_limits();
  issued_before_updates_ = state_.launches.issued_by_stream();
  parts_.markers.put_markers();
  state_.queue->wake();
  return begun;
}

// Until nothing need be done before them. nullopt: they are not to run at the host.
std::optional<HostUpdates::WholeUpdate> HostUpdates::make_ready(
    std::span<const std::vector<ProgramOperand>> parts, CuStream stream) {
  TimeNs sign_ns = 0;
  while (has_updates()) {
    std::optional<WholeUpdate> update = launches_of(parts);
    if (!update) {
      return std::nullopt;
    }
    const StreamId id = parts_.streams.stream_of(canonical(stream));
    if (const std::optional<Recomputing::Step> step = step_before_update(update->whole, id)) {
      parts_.recompute.carry_out(*step, sign_ns);
    } else if (has_updates()) {
      const std::optional<Bytes> placed = place_at_host(update->whole);
      if (!placed) {
        return std::nullopt;
      }
      update->host_bytes = *placed;
      state_.recomputing.issued(update->whole.accesses, id, state_.launches.stream(id).issued);
      return update;
    }
  }
  return std::nullopt;
}

// nullopt: they are not to run at the host.
std::optional<HostUpdates::WholeUpdate> HostUpdates::launches_of(
    std::span<const std::vector<ProgramOperand>> parts) const {
  WholeUpdate update;
  update.whole.runs_at = Tier::kHost;
  for (const std::vector<ProgramOperand>& part : parts) {
    std::optional<Launch> launch = DeviceUpdates::launch_of(part, *state_.memory);
    if (!launch || !may_be_at_host(*launch)) {
      return std::nullopt;
    }
    for (const Access& access : launch->accesses) {
      add_to(update.whole, access);
    }
    update.parts.push_back(std::move(*launch));
  }
  return update;
}

// How many bytes the processor will move for it; nullopt: it runs on the device.
std::optional<Bytes> HostUpdates::place_at_host(const Launch& whole) {
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
void HostUpdates::add_to(Launch& whole, const Access& access) {
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
std::optional<Recomputing::Step> HostUpdates::step_before_update(const Launch& whole,
                                                                 StreamId stream) {
  if (state_.recomputing.empty()) {
    return std::nullopt;
  }
  if (const std::optional<Recomputing::Step> step =
          state_.recomputing.before_launch(whole.accesses, stream, kNoAllocation)) {
    return step;
  }
  for (const Access& access : whole.accesses) {
    if (!writes(access.mode)) {
      continue;
    }
    if (const std::optional<Recomputing::Step> step =
            state_.recomputing.before_divide(access.allocation)) {
      return step;
    }
    state_.recomputing.divided(access.allocation);
  }
  return std::nullopt;
}

// Nobody can take an update back: so all that it needs of host memory is kept for it, and it is
// counted as if that were in use. Where there is no room, there will be for later ones.
bool HostUpdates::keep_room_at_host(const Launch& whole) {
  const Bytes more_bytes = state_.engine.more_kept_bytes(whole);
  const Bytes limit_bytes = parts_.host.most_promised_bytes(
      parts_.host.budget().limit_bytes(state_.engine.host_mapped_bytes()));
  if (updates_.any() < DeviceUpdates::kMost &&
      state_.memory->promised_bytes() + more_bytes <= limit_bytes &&
      more_bytes <= state_.engine.free_bytes(Tier::kHost)) {
    state_.engine.keep_room(whole);
    return true;
  }
  parts_.host.want_pinned(state_.engine.used_bytes(Tier::kHost) +
                          state_.engine.kept_for_updates_bytes() + more_bytes +
                          2 * state_.options.pinned_piece_bytes);
  if (parts_.host.budget().pinned_bytes() >=
      parts_.host.budget().most_pinned_bytes(parts_.host.most_host_mapped_bytes())) {
    state_.engine.make_room_for_updates(more_bytes);
  }
  return false;
}

std::optional<UpdateId> HostUpdates::next_update() {
  // That all is over is not announced here.
  constexpr std::chrono::milliseconds kLookAgain{50};
  const Lock lock(state_);
  while (!state_.broken && updates_.next_is_awaited()) {
    state_.wait_for(updates_.ready_changed(), kLookAgain);
  }
  return state_.broken ? std::nullopt : updates_.next();
}

std::vector<Extents> HostUpdates::update_extents(UpdateId update) const {
  const Lock lock(state_);
  return updates_.extents(update, *state_.memory, parts_.host.pinned());
}

void HostUpdates::end_update(UpdateId update) {
  {
    const Lock lock(state_);
    updates_.end(update);
    parts_.host.set_limits();
  }
  state_.changed.notify_all();
  state_.queue->wake();
}

// An allocation for which there would be room without what is kept for updates waits for their end,
// which nothing that the program does later is needed for.
void HostUpdates::let_updates_end(Bytes bytes) {
  const auto has_room = [&] {
    return state_.memory->promised_bytes() + bytes <= state_.memory->limit_bytes();
  };
  if (updates_.any() > 0 && !has_room()) {
    parts_.waits.wait_until(
        [&]() SPILLWAY_REQUIRES(platform_lock) { return updates_.any() == 0 || has_room(); });
  }
}

// Whether an update may wait for this launch, behind which no completion marker could stand when
// the update was issued.
bool HostUpdates::update_may_wait_for(StreamId stream, std::uint64_t number) const {
  return updates_.some_wait() && stream < issued_before_updates_.size() &&
         number <= issued_before_updates_[stream];
}

// Its place may hold anything: so may new memory on the device.
void HostUpdates::zero_at_host(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    if (!state_.host_ranges.take(id, state_.bytes_of(id))) {
      state_.fail({ErrorCode::kDefect, "no host memory for an update, which it was promised"});
    }
  }
}

}  // namespace spillway::cuda
