// Host memory: what is pinned when, how much of it can be promised, and what happens where the
// system has no more to spare. See host_memory_use.h; docs/cuda.md ("Little host memory").
#include "platform/cuda/memory/host_memory_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {
namespace {

std::string advice(const MemoryRoom& room, bool storage) {
  return fmt::format("{}; {}", room.text_with_kept(),
                     storage ? "give --storage more" : "name a place to swap to with --storage");
}

}  // namespace

HostMemoryUse::HostMemoryUse(PlatformState& state, PlatformParts& parts)
    : PlatformPart(state, parts),
      budget_(state.options.host_bytes, state.options.pinned_piece_bytes,
              state.options.memory_room != nullptr) {}

Status HostMemoryUse::start(CuContext context) {
  const MemoryRoom room = state_.options.memory_room ? state_.options.memory_room() : MemoryRoom{};
  {
    const Lock lock(state_);
    note_room(room);
  }
  HostMemory::Options pinned{
      .most_bytes = state_.options.host_bytes,
      .piece_bytes = state_.options.pinned_piece_bytes,
      .grown = [this](std::uint64_t at, Bytes bytes) { host_grown(at, bytes); },
      .ended = [this](const Error& error) { host_ended(error); },
      .spare_bytes = nullptr,
      .is_short = [this](bool is_short) { host_is_short(is_short); }};
  if (state_.options.memory_room) {
    pinned.spare_bytes = [this](Bytes pinned_bytes) { return spare_bytes(pinned_bytes); };
  }
  Result<std::unique_ptr<HostMemory>> made =
      HostMemory::make(state_.driver, context, std::move(pinned));
  if (!made) {
    return tl::unexpected<Error>(made.error());
  }
  pinned_ = std::move(*made);
  const bool device_reaches =
      node_of_host_handles(state_.driver, state_.options.device).has_value();
  const Lock lock(state_);
  budget_.allow_host_mapped(device_reaches && !state_.options.link.limited());
  return {};
}

void HostMemoryUse::end() {
  if (pinned_) {
    pinned_->unregister();
  }
}

// What cannot be on the device must have a place, and some of it is to be ready before that.
void HostMemoryUse::want_host() {
  live_bytes_ = state_.memory->commitment().bytes();
  const Bytes live_bytes = live_bytes_ + state_.options.pinned_piece_bytes;
  const Bytes device_bytes = state_.engine.capacity_bytes(Tier::kDevice);
  state_.governor.alive_at_most(state_.memory->commitment().peak_bytes(), state_.budget_bytes);
  if (live_bytes > device_bytes) {
    want_pinned(live_bytes -
                std::min(live_bytes, device_bytes + state_.engine.host_mapped_bytes()) +
                state_.options.pinned_piece_bytes);
  }
}

Bytes HostMemoryUse::most_host_mapped_bytes() const {
  return std::max(state_.engine.host_mapped_bytes(), state_.queue->host_handle_bytes());
}

void HostMemoryUse::want_pinned(Bytes bytes) {
  bytes = std::min(bytes, budget_.most_pinned_bytes(most_host_mapped_bytes()));
  pinned_->want(bytes);
  budget_.want(bytes);
  state_.engine.set_host_mapped_capacity(budget_.host_mapped_capacity_bytes());
}

void HostMemoryUse::no_host_mapped_memory() {
  state_.engine.set_host_mapped_capacity(0);
  if (budget_.refused(now_ns())) {
    state_.options.warn(
        fmt::format("no more host memory that launches can use than {}: going on without for now",
                    format_bytes(state_.engine.host_mapped_bytes())));
  }
}

// The driver thread's.
void HostMemoryUse::look_for_host_mapped_memory() {
  if (!budget_.may_try_again(now_ns())) {
    return;
  }
  if (state_.options.memory_room) {
    const MemoryRoom room = state_.without_lock([&] { return state_.options.memory_room(); });
    note_room(room);
    if (room.to_promise_bytes() < state_.options.block_bytes) {
      budget_.still_refused(now_ns());
      return;
    }
  }
  budget_.allowed_again();
  want_pinned(0);
}

// For HostMemory's thread. What has been promised is taken although the program has grown since;
// what is pinned ahead of that is not.
Bytes HostMemoryUse::spare_bytes(Bytes pinned_bytes) const {
  const MemoryRoom room = state_.options.memory_room();
  const Bytes promised_bytes =
      live_bytes_ - std::min(live_bytes_.load(), state_.budget_bytes.load());
  return pinned_bytes < promised_bytes ? room.to_take_bytes() : room.to_promise_bytes();
}

// Before more is promised than is there: what the system could spare a while ago it may not have
// any more.
void HostMemoryUse::look_for_room(Bytes bytes) {
  const Bytes wanted_bytes = state_.memory->promised_bytes() + bytes;
  if (!state_.options.memory_room ||
      wanted_bytes <=
          most_promised_bytes(budget_.pinned_bytes() + state_.engine.host_mapped_bytes()) ||
      (wanted_bytes <= state_.memory->limit_bytes() && budget_.is_known(now_ns()))) {
    return;
  }
  // it reads files, too slowly for each allocation
  const MemoryRoom room = state_.without_lock([&] { return state_.options.memory_room(); });
  note_room(room);
}

void HostMemoryUse::note_room(const MemoryRoom& room) {
  budget_.saw(room, state_.engine.host_mapped_bytes(), now_ns());
  set_limits();
}

void HostMemoryUse::host_is_short(bool is_short) {
  const MemoryRoom room = state_.options.memory_room();
  const Lock lock(state_);
  const bool say = budget_.set_short(is_short);
  note_room(room);
  if (say) {
    state_.options.warn(
        fmt::format("host memory stays at {} of {} for now: {}; what does not fit there is {}",
                    format_bytes(budget_.pinned_bytes()), format_bytes(state_.options.host_bytes),
                    room.text_with_kept(), state_.storage ? "moved to storage" : "refused"));
  }
}

// What was promised cannot be kept, and has not come for long.
Error HostMemoryUse::out_of_host_memory() const {
  return {ErrorCode::kUnsupported,
          fmt::format("out of host memory: launches need more than the {} that are pinned; {}",
                      format_bytes(budget_.pinned_bytes()),
                      advice(budget_.room(), state_.storage.has_value()))};
}

void HostMemoryUse::host_grown(std::uint64_t at, Bytes bytes) {
  const Lock lock(state_);
  state_.host_ranges.add(at, bytes);
  budget_.grown(bytes);
  state_.engine.set_capacity_below(Tier::kHost, budget_.pinned_bytes());
}

void HostMemoryUse::host_ended(const Error& error) {
  const Lock lock(state_);
  budget_.end();
  set_limits();
  state_.options.warn(fmt::format("no more pinned memory than {} of {}: {}",
                                  format_bytes(budget_.pinned_bytes()),
                                  format_bytes(state_.options.host_bytes), error.message));
}

// With so much host memory: some of the lower tiers stays free, so that blocks can change places.
Bytes HostMemoryUse::most_promised_bytes(Bytes host_bytes) const {
  const Bytes below_bytes = host_bytes + state_.engine.capacity_bytes(Tier::kStorage);
  return state_.budget_bytes + below_bytes -
         std::min(below_bytes,
                  2 * state_.options.block_bytes + state_.engine.kept_for_updates_bytes());
}

void HostMemoryUse::set_limits() {
  const Bytes host_mapped_bytes = state_.engine.host_mapped_bytes();
  state_.memory->set_limit(most_promised_bytes(budget_.limit_bytes(host_mapped_bytes)),
                           budget_.system_limits(host_mapped_bytes)
                               ? advice(budget_.room(), state_.storage.has_value())
                               : "raise --host-memory or --storage");
}

}  // namespace spillway::cuda
