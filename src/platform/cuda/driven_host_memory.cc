// Host memory: what is pinned when, how much of it can be promised, and what happens where the
// system has no more to spare. See driven_platform.h, docs/cuda.md ("Little host memory").
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/cuda/driven_platform.h"

namespace spillway::cuda {

// What cannot be on the device must have a place, and some of it is to be ready before that.
void DrivenPlatform::want_host() {
  live_bytes_ = memory_->commitment().bytes();
  const Bytes live_bytes = live_bytes_ + options_.pinned_piece_bytes;
  const Bytes device_bytes = engine_.capacity_bytes(Tier::kDevice);
  governor_.alive_at_most(memory_->commitment().peak_bytes(), budget_bytes_);
  if (live_bytes > device_bytes) {
    want_pinned(live_bytes - std::min(live_bytes, device_bytes + engine_.host_mapped_bytes()) +
                options_.pinned_piece_bytes);
  }
}

// What launches use over the link, or have had room made for.
Bytes DrivenPlatform::most_host_mapped_bytes() const {
  return std::max(engine_.host_mapped_bytes(), queue_->host_handle_bytes());
}

void DrivenPlatform::want_pinned(Bytes bytes) {
  bytes = std::min(bytes, host_budget_.most_pinned_bytes(most_host_mapped_bytes()));
  host_->want(bytes);
  host_budget_.want(bytes);
  engine_.set_host_mapped_capacity(host_budget_.host_mapped_capacity_bytes());
}

void DrivenPlatform::no_host_mapped_memory() {
  engine_.set_host_mapped_capacity(0);
  if (host_budget_.refused(now_ns())) {
    options_.warn(
        fmt::format("no more host memory that launches can use than {}: going on without for now",
                    format_bytes(engine_.host_mapped_bytes())));
  }
}

// The driver thread's.
void DrivenPlatform::look_for_host_mapped_memory() {
  if (!host_budget_.may_try_again(now_ns())) {
    return;
  }
  if (options_.memory_room) {
    mutex_.unlock();
    const MemoryRoom room = options_.memory_room();
    mutex_.lock();
    note_room(room);
    if (room.to_promise_bytes() < options_.block_bytes) {
      host_budget_.still_refused(now_ns());
      return;
    }
  }
  host_budget_.allowed_again();
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
void DrivenPlatform::look_for_room(Bytes bytes) {
  const Bytes wanted_bytes = memory_->promised_bytes() + bytes;
  if (!options_.memory_room ||
      wanted_bytes <=
          most_promised_bytes(host_budget_.pinned_bytes() + engine_.host_mapped_bytes()) ||
      (wanted_bytes <= memory_->limit_bytes() && host_budget_.is_known(now_ns()))) {
    return;
  }
  mutex_.unlock();  // it reads files, too slowly for each allocation
  const MemoryRoom room = options_.memory_room();
  mutex_.lock();
  note_room(room);
}

void DrivenPlatform::note_room(const MemoryRoom& room) {
  host_budget_.saw(room, engine_.host_mapped_bytes(), now_ns());
  set_limits();
}

void DrivenPlatform::host_is_short(bool is_short) {
  const MemoryRoom room = options_.memory_room();
  const Lock lock(mutex_);
  const bool say = host_budget_.set_short(is_short);
  note_room(room);
  if (say) {
    options_.warn(
        fmt::format("host memory stays at {} of {} for now: {}; what does not fit there is {}",
                    format_bytes(host_budget_.pinned_bytes()), format_bytes(options_.host_bytes),
                    room.text_with_kept(), storage_ ? "moved to storage" : "refused"));
  }
}

Error DrivenPlatform::out_of_memory(Bytes handle_bytes) {
  const Lock lock(mutex_);
  if (host_budget_.is_short()) {
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
                      format_bytes(host_budget_.pinned_bytes()),
                      advice(host_budget_.room(), storage_.has_value()))};
}

void DrivenPlatform::host_grown(std::uint64_t at, Bytes bytes) {
  const Lock lock(mutex_);
  host_ranges_.add(at, bytes);
  host_budget_.grown(bytes);
  engine_.set_capacity_below(Tier::kHost, host_budget_.pinned_bytes());
}

void DrivenPlatform::host_ended(const Error& error) {
  const Lock lock(mutex_);
  host_budget_.end();
  set_limits();
  options_.warn(fmt::format("no more pinned memory than {} of {}: {}",
                            format_bytes(host_budget_.pinned_bytes()),
                            format_bytes(options_.host_bytes), error.message));
}

// With so much host memory: some of the lower tiers stays free, so that blocks can change places.
Bytes DrivenPlatform::most_promised_bytes(Bytes host_bytes) const {
  const Bytes below_bytes = host_bytes + engine_.capacity_bytes(Tier::kStorage);
  return budget_bytes_ + below_bytes -
         std::min(below_bytes, 2 * options_.block_bytes + engine_.kept_for_updates_bytes());
}

void DrivenPlatform::set_limits() {
  const Bytes host_mapped_bytes = engine_.host_mapped_bytes();
  memory_->set_limit(most_promised_bytes(host_budget_.limit_bytes(host_mapped_bytes)),
                     host_budget_.system_limits(host_mapped_bytes)
                         ? advice(host_budget_.room(), storage_.has_value())
                         : "raise --host-memory or --storage");
}

}  // namespace spillway::cuda
