// Host memory: what is pinned when, how much of it can be promised, and what happens where the
// system has no more to spare. See driven_platform.h, docs/cuda.md ("Little host memory").
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "platform/common/clock.h"
#include "platform/cuda/driven_platform.h"

namespace spillway::cuda {
namespace {

// What was seen of the system's memory counts for so long.
constexpr TimeNs kAsKnownNs = 10'000'000;
// Between tries of a driver that refuses what the system has.
constexpr TimeNs kLongestFarPauseNs = 10 * kNsPerS;

}  // namespace

// What cannot be on the device must have a place, and some of it is to be ready before that.
void DrivenPlatform::want_host() {
  live_bytes_ = memory_->commitment().bytes();
  const Bytes live_bytes = live_bytes_ + options_.pinned_piece_bytes;
  const Bytes device_bytes = engine_.capacity_bytes(Tier::kDevice);
  patience_.alive_at_most(memory_->commitment().peak_bytes(), budget_bytes_);
  if (live_bytes > device_bytes) {
    want_pinned(live_bytes - std::min(live_bytes, device_bytes + engine_.far_bytes()) +
                options_.pinned_piece_bytes);
  }
}

// Pinned memory and what launches use over the link are the host's together (docs/cuda.md): what
// one has taken the other cannot have.
Bytes DrivenPlatform::most_pinned_bytes() const {
  const Bytes far_bytes = std::max(engine_.far_bytes(), queue_->host_handle_bytes());
  const Bytes left_bytes = options_.host_bytes - std::min(options_.host_bytes, far_bytes);
  return far_bytes == 0 ? left_bytes
                        : left_bytes / options_.pinned_piece_bytes * options_.pinned_piece_bytes;
}

void DrivenPlatform::want_pinned(Bytes bytes) {
  bytes = std::min(bytes, most_pinned_bytes());
  host_->want(bytes);
  wanted_pinned_bytes_ = std::max(wanted_pinned_bytes_, bytes);
  const Bytes taken_bytes = round_up(wanted_pinned_bytes_, options_.pinned_piece_bytes);
  engine_.set_far_capacity(has_far_ && far_refused_ns_ == 0 && !host_ended_
                               ? options_.host_bytes - std::min(options_.host_bytes, taken_bytes)
                               : 0);
}

// The system has none for it: what is far stays so. It may have some again, but the longer it has
// had none, the less often that is tried.
void DrivenPlatform::no_far_memory() {
  engine_.set_far_capacity(0);
  if (far_refused_ns_ == 0) {
    far_pause_ns_ = std::clamp(2 * far_pause_ns_, kAsKnownNs, kLongestFarPauseNs);
  }
  far_refused_ns_ = now_ns();
  if (!std::exchange(told_no_far_, true)) {
    options_.warn(
        fmt::format("no more host memory that launches can use than {}: going on without for now",
                    format_bytes(engine_.far_bytes())));
  }
}

// The driver thread's.
void DrivenPlatform::look_for_far_memory(Lock& lock) {
  if (far_refused_ns_ == 0 || now_ns() - far_refused_ns_ < far_pause_ns_) {
    return;
  }
  if (options_.memory_room) {
    lock.unlock();
    const MemoryRoom room = options_.memory_room();
    lock.lock();
    note_room(room);
    if (room.to_promise_bytes() < options_.block_bytes) {
      far_pause_ns_ = std::min(2 * far_pause_ns_, kLongestFarPauseNs);
      far_refused_ns_ = now_ns();
      return;
    }
  }
  far_refused_ns_ = 0;
  want_pinned(0);
}

// --- What can be had ----------------------------------------------------------------------------

namespace {

std::string advice(const MemoryRoom& room, bool storage) {
  return fmt::format("{}; {}", room.text_with_kept(),
                     storage ? "give --storage more" : "name a place to swap to with --storage");
}

}  // namespace

// For HostMemory's thread. What has been promised is taken although the program has grown since;
// what is pinned ahead of that is not.
Bytes DrivenPlatform::spare_bytes(Bytes pinned_bytes) const {
  const MemoryRoom room = options_.memory_room();
  const Bytes promised_bytes = live_bytes_ - std::min(live_bytes_.load(), budget_bytes_.load());
  return pinned_bytes < promised_bytes ? room.to_take_bytes() : room.to_promise_bytes();
}

// Before more is promised than is there: what the system could spare a while ago it may not have
// any more.
void DrivenPlatform::look_for_room(Bytes bytes, Lock& lock) {
  const Bytes wanted_bytes = memory_->promised_bytes() + bytes;
  if (!options_.memory_room ||
      wanted_bytes <= most_promised_bytes(host_ready_bytes_ + engine_.far_bytes()) ||
      (wanted_bytes <= memory_->limit_bytes() && now_ns() - looked_at_ns_ < kAsKnownNs)) {
    return;
  }
  lock.unlock();  // it reads files, too slowly for each allocation
  const MemoryRoom room = options_.memory_room();
  lock.lock();
  note_room(room);
}

void DrivenPlatform::note_room(const MemoryRoom& room) {
  room_ = room;
  looked_at_ns_ = now_ns();
  had_bytes_ = host_ready_bytes_ + engine_.far_bytes();
  set_limits();
}

// Of host memory, what is pinned or used over the link included.
Bytes DrivenPlatform::host_limit_bytes() const {
  const Bytes there_bytes = host_ready_bytes_ + engine_.far_bytes();
  if (host_ended_ || !options_.memory_room) {
    return host_ended_ ? there_bytes : options_.host_bytes;
  }
  return std::min(options_.host_bytes,
                  std::max(there_bytes, had_bytes_ + room_.to_promise_bytes()));
}

void DrivenPlatform::host_is_short(bool is_short) {
  const MemoryRoom room = options_.memory_room();
  const Lock lock(mutex_);
  host_short_ = is_short;
  note_room(room);
  if (is_short && !std::exchange(told_short_, true)) {
    options_.warn(
        fmt::format("host memory stays at {} of {} for now: {}; what does not fit there is {}",
                    format_bytes(host_ready_bytes_), format_bytes(options_.host_bytes),
                    room.text_with_kept(), storage_ ? "moved to storage" : "refused"));
  }
}

Error DrivenPlatform::out_of_memory(Bytes handle_bytes) {
  const Lock lock(mutex_);
  if (host_short_) {
    return out_of_host_memory();
  }
  return {ErrorCode::kUnsupported,
          fmt::format("out of device memory: launches need more than the {} that others leave of "
                      "the device; free some of it or lower the budget",
                      format_bytes(handle_bytes))};
}

// What was promised cannot be kept, and has not come for long.
Error DrivenPlatform::out_of_host_memory() const {
  return {ErrorCode::kUnsupported,
          fmt::format("out of host memory: launches need more than the {} that are pinned; {}",
                      format_bytes(host_ready_bytes_), advice(room_, storage_.has_value()))};
}

void DrivenPlatform::host_grown(std::uint64_t at, Bytes bytes) {
  const Lock lock(mutex_);
  host_places_.add(at, bytes);
  host_ready_bytes_ += bytes;
  engine_.set_capacity_below(Tier::kHost, host_ready_bytes_);
}

void DrivenPlatform::host_ended(const Error& error) {
  const Lock lock(mutex_);
  host_ended_ = true;
  set_limits();
  options_.warn(fmt::format("no more pinned memory than {} of {}: {}",
                            format_bytes(host_ready_bytes_), format_bytes(options_.host_bytes),
                            error.message));
}

// With so much host memory: some of the lower tiers stays free, so that blocks can change places.
Bytes DrivenPlatform::most_promised_bytes(Bytes host_bytes) const {
  const Bytes below_bytes = host_bytes + engine_.capacity_bytes(Tier::kStorage);
  return budget_bytes_ + below_bytes -
         std::min(below_bytes, 2 * options_.block_bytes + engine_.kept_for_updates_bytes());
}

void DrivenPlatform::set_limits() {
  const Bytes host_bytes = host_limit_bytes();
  memory_->set_limit(most_promised_bytes(host_bytes),
                     host_bytes < options_.host_bytes && !host_ended_
                         ? advice(room_, storage_.has_value())
                         : "raise --host-memory or --storage");
}

}  // namespace spillway::cuda
