// What the engine asks for, made into orders, and what becomes of them. See driven_platform.h.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "platform/common/platform_engine.h"
#include "platform/common/process/clock.h"
#include "platform/cuda/driven_platform.h"

namespace spillway::cuda {
namespace {

// For how long nothing may happen before launches that wait are said to wait for ever. The program
// may free something meanwhile.
constexpr TimeNs kStuckNs = 2'000'000'000;
// The same where the system has no memory to spare, which others may give back.
constexpr TimeNs kShortNs = 10'000'000'000;

void log_transfer(EventLog& events, const MoveEnded& ended) {
  LoggedTransfer transfer{.from = ended.move.from,
                          .to = ended.move.to,
                          .bytes = 0,
                          .asked_ns = ended.move.asked_ns,
                          .begin_ns = ended.begun_ns,
                          .end_ns = ended.ended_ns};
  for (const Move::Part& part : ended.move.parts) {
    transfer.bytes += part.bytes;
  }
  events.transferred(transfer);
}

}  // namespace

// --- What the engine asks for -------------------------------------------------------------------

void DrivenPlatform::start_transfer(const Transfer& transfer) {
  updates_.transfer_began(transfer);
  DriverCommand command{.kind = DriverCommand::Kind::kMove};
  command.move.id = transfer.id;
  command.move.from = transfer.from;
  command.move.to = transfer.to;
  command.move.asked_ns = now_ns();
  bool all_there = transfer.from == Tier::kDevice;
  for (const BlockId id : transfer.blocks) {
    all_there = all_there && backing_.is_there(id);
    const Bytes bytes = bytes_of(id);
    if ((transfer.to == Tier::kHost && !host_ranges_.take(id, bytes)) ||
        (transfer.to == Tier::kStorage && !storage_ranges_.take(id, bytes))) {
      command.move.error = transfer.to == Tier::kHost ? ENOMEM : ENOSPC;
    }
    Move::Part part{.block = id, .bytes = bytes, .address = 0, .host = {}, .storage = {}};
    if (transfer.from == Tier::kDevice || transfer.to == Tier::kDevice) {
      part.address = memory_->address_of(id);
      part.host_mapped = engine_.space().block(id).host_mapped;
    }
    if (transfer.from == Tier::kHost || transfer.to == Tier::kHost) {
      for (const Run& run : host_ranges_.of(id)) {
        part.host.push_back({.host = host_->at(run.at), .bytes = run.bytes});
      }
    }
    if (transfer.from == Tier::kStorage || transfer.to == Tier::kStorage) {
      part.storage = storage_ranges_.of(id);
    }
    if (transfer.to == Tier::kDevice) {
      backing_.comes_with_transfer(id);
    }
    command.move.parts.push_back(std::move(part));
  }
  all_there ? queue_->push_ahead(std::move(command)) : queue_->push(std::move(command));
}

// Nobody has promised zeros.
void DrivenPlatform::zero(std::span<const BlockId> /*blocks*/) {}

void DrivenPlatform::map(std::span<const BlockId> blocks, bool /*writable*/) {
  for (const BlockId id : blocks) {
    if (!backing_.is_none(id)) {
      continue;
    }
    launches_.came_from(id, Source::kZeros);
    // Not ahead of orders that count on its frame; the driver thread takes it back behind them.
    if (backing_.end_kept(id) && queue_->empty() && queue_->take_back(id)) {
      backed(id);
      continue;
    }
    queue_->push({.kind = DriverCommand::Kind::kBack,
                  .block = id,
                  .address = memory_->address_of(id),
                  .bytes = bytes_of(id),
                  .serial = backing_.order(id)});
  }
}

// No launch that names the block has been released and not ended, and none will be before the next
// map: its stream wait is pending.
void DrivenPlatform::unmap(std::span<const BlockId> /*blocks*/) {}

void DrivenPlatform::drop(std::span<const BlockId> blocks, Tier tier) {
  for (const BlockId id : blocks) {
    if (tier != Tier::kDevice) {
      (tier == Tier::kHost ? host_ranges_ : storage_ranges_).give_back(id);
      continue;
    }
    const bool was_there = backing_.drop(id);
    const Block& dropped = engine_.space().block(id);
    if (was_there && governor_.all_fits() && dropped.contents == Contents::kDiscarded &&
        dropped.tenants > 0 && !freed_runs_.has(id) && queue_->keep_mapped(id)) {
      backing_.keep_mapped(id);
      continue;
    }
    queue_->push({.kind = DriverCommand::Kind::kDrop, .block = id});
    if (const std::optional<ProgramMemory::Freed> run = freed_runs_.drop(id)) {
      forget_run(*run);
    }
  }
}

BlockId DrivenPlatform::holds_frame_of(BlockId block) const {
  return backing_.is_kept(block) ? queue_->holder_of(block) : kNoBlock;
}

// Its addresses are nobody's when the last of its blocks has been dropped, and that carried out.
void DrivenPlatform::freed(AllocationId id) {
  const ProgramMemory::Freed run = memory_->freed(id);
  std::vector<BlockId> mapped;
  for (std::uint32_t i = 0; i < run.block_count; ++i) {
    const BlockId block = run.first_block + i;
    if (engine_.space().block(block).frames.has(Tier::kDevice)) {
      mapped.push_back(block);
    }
    if (backing_.end_kept(block)) {
      queue_->push({.kind = DriverCommand::Kind::kDrop, .block = block});
    }
  }
  if (mapped.empty()) {
    forget_run(run);
  } else {
    freed_runs_.add(run, mapped);
  }
}

void DrivenPlatform::forget_run(const ProgramMemory::Freed& run) {
  if (run.bytes > 0) {
    queue_->push(
        {.kind = DriverCommand::Kind::kForget, .address = run.address, .bytes = run.bytes});
  }
}

void DrivenPlatform::share_with(CuDevice device) {
  Lock lock(mutex_);
  if (device == options_.device) {
    return;
  }
  const std::uint64_t mine = ++shares_;
  queue_->push({.kind = DriverCommand::Kind::kShare, .device = device});
  mutex_.wait(changed_,
              [&]() SPILLWAY_REQUIRES(mutex_) { return shares_done_ >= mine || broken_; });
}

void DrivenPlatform::faults_served(std::uint64_t /*launch*/) {}

// It may run when all of its blocks have their memory, which may still be on order.
void DrivenPlatform::release_launch(std::uint64_t launch,
                                    std::span<const TransferId> /*transfers*/) {
  if (DeviceUpdates::is_tag(launch)) {
    updates_.released(launch);
    return;
  }
  if (BypassMode::is_hold(launch)) {
    return;
  }
  const auto tag = static_cast<std::uint32_t>(launch);
  std::uint32_t unbacked = 0;
  for (const Access& access : launches_.at(tag).accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      if (const BlockId block = access.first_block + i; !backing_.is_there(block)) {
        backing_.wait(block, tag);
        ++unbacked;
      }
    }
  }
  launches_.released(tag, unbacked);
}

void DrivenPlatform::backed(BlockId id) {
  for (const std::uint32_t tag : backing_.arrived(id)) {
    launches_.backed(tag);
  }
}

// --- What has become of it ----------------------------------------------------------------------

bool DrivenPlatform::look(const Done& done) {
  Lock lock(mutex_);
  if (const TimeNs stalled_ns = stalls_.current_ns(); stalled_ns > 0) {
    using What = WorkTimes::What;
    queue_->times().add(done.copies_in ? (done.copies_out ? What::kStalledBoth : What::kStalledIn)
                        : done.copies_out ? What::kStalledOut
                                          : What::kStalledIdle,
                        std::min(done.since_ns, stalled_ns));  // the round may be much older
  }
  for (const DriverCommand& command : done.forgotten) {
    memory_->give_back(command.address, command.bytes);
  }
  for (const CommandListener::Backed& it : done.backed) {
    // It may have been dropped, and ordered again, since.
    if (backing_.is_ordered(it.block, it.serial)) {
      backed(it.block);
    }
  }
  for (const MoveEnded& it : done.moved) {
    moved(it);
  }
  shares_done_ += done.shared;
  take_ends();
  look_for_host_mapped_memory();
  check_progress();
  const bool somebody_waits = launches_.waiting() > 0 || held_ > 0 || updates_.some_wait();
  const bool is_news = !done.empty() || broken_;
  lock.unlock();  // or who is told would wait for it
  if (is_news) {
    changed_.notify_all();
  }
  return somebody_waits;
}

void DrivenPlatform::moved(const MoveEnded& ended) {
  const Move& move = ended.move;
  updates_.transfer_ended(move, ended.error == 0);
  if (EventLog* const events = log_.events(); events != nullptr && ended.error == 0) {
    log_transfer(*events, ended);
  }
  const bool host_mapped = std::any_of(move.parts.begin(), move.parts.end(),
                                       [](const Move::Part& part) { return part.host_mapped; });
  if (host_mapped && ended.error == ENOMEM && move.to == Tier::kDevice) {
    no_host_mapped_memory();
    engine_.transfer_failed(move.id);
    return;
  }
  if (ended.error != 0) {
    if (report_failed(engine_, move.id, move.to, ended.error)) {
      set_limits();
    }
    return;
  }
  if (move.to == Tier::kDevice) {
    for (const Move::Part& part : move.parts) {
      launches_.came_from(part.block,
                          move.from == Tier::kHost ? Source::kHostCopy : Source::kStorageCopy);
      backed(part.block);
    }
  }
  if (host_mapped) {
    host_budget_.got_host_mapped();
  }
  engine_.transfer_finished(move.id);
  want_pinned(engine_.used_bytes(Tier::kHost) + 2 * options_.pinned_piece_bytes);
}

// Others use the card: the budget becomes what there is. What launches have been admitted for and
// now has no room is backed by host memory, and the engine follows as they end.
void DrivenPlatform::no_memory(Bytes handle_bytes) {
  const Lock lock(mutex_);
  if (handle_bytes >= budget_bytes_) {
    return;
  }
  bypass_.leave();
  queue_->push({.kind = DriverCommand::Kind::kBudget, .bytes = handle_bytes});
  if (!std::exchange(said_no_memory_, true)) {
    options_.warn(fmt::format(
        "the device has no {} left, others use it: going on with {}; free some of it or lower the "
        "budget",
        format_bytes(budget_bytes_), format_bytes(handle_bytes)));
  }
  budget_bytes_ = handle_bytes;
  follow_budget();
  set_limits();
}

// On this platform a launch that was released and stands behind another does not run, so the engine
// cannot tell alone.
void DrivenPlatform::check_progress() {
  if (broken_) {
    return;
  }
  if (const std::optional<Error>& fatal = engine_.fatal()) {
    broken_ = true;
    failures_.fatal(failures_.with_cause(*fatal));
    return;
  }
  look_for_ends();
  let_those_together_go();
  const bool moving = launches_.waiting() == 0 || engine_.transfers_in_flight() > 0 ||
                      !queue_->empty() || !launches_.all_wait() || updates_.some_run();
  const bool host_could_grow = host_budget_.may_grow(most_host_mapped_bytes());
  if (!moving && host_could_grow) {
    want_pinned(host_budget_.pinned_bytes() + options_.pinned_piece_bytes);
  }
  if (moving || (host_could_grow && !host_budget_.is_short())) {
    stuck_since_ns_ = 0;
    return;
  }
  const TimeNs at_ns = now_ns();
  if (stuck_since_ns_ == 0) {
    stuck_since_ns_ = at_ns;
  } else if (at_ns - stuck_since_ns_ > (host_budget_.is_short() ? kShortNs : kStuckNs)) {
    broken_ = true;
    failures_.fatal(host_budget_.is_short()
                        ? out_of_host_memory()
                        : engine_.stuck().value_or(Error{
                              ErrorCode::kDefect,
                              "launches wait, and nothing is on its way that could help them"}));
  }
}

}  // namespace spillway::cuda
