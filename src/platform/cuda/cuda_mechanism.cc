// What the engine asks for, made into commands, and what becomes of them. See cuda_mechanism.h.
#include "platform/cuda/cuda_mechanism.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "platform/common/platform_engine.h"
#include "platform/common/process/clock.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

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

void CudaMechanism::start_transfer(const Transfer& transfer) {
  parts_.updates.under_way().transfer_began(transfer);
  DriverCommand command{.kind = DriverCommand::Kind::kMove};
  command.move.id = transfer.id;
  command.move.from = transfer.from;
  command.move.to = transfer.to;
  command.move.asked_ns = now_ns();
  bool all_there = transfer.from == Tier::kDevice;
  for (const BlockId id : transfer.blocks) {
    all_there = all_there && state_.backing.is_there(id);
    const Bytes bytes = state_.bytes_of(id);
    if ((transfer.to == Tier::kHost && !state_.host_ranges.take(id, bytes)) ||
        (transfer.to == Tier::kStorage && !storage_ranges_.take(id, bytes))) {
      command.move.error = transfer.to == Tier::kHost ? ENOMEM : ENOSPC;
    }
    Move::Part part{.block = id, .bytes = bytes, .address = 0, .host = {}, .storage = {}};
    if (transfer.from == Tier::kDevice || transfer.to == Tier::kDevice) {
      part.address = state_.memory->address_of(id);
      part.host_mapped = state_.engine.space().block(id).host_mapped;
    }
    if (transfer.from == Tier::kHost || transfer.to == Tier::kHost) {
      for (const Run& run : state_.host_ranges.of(id)) {
        part.host.push_back({.host = parts_.host.pinned().at(run.at), .bytes = run.bytes});
      }
    }
    if (transfer.from == Tier::kStorage || transfer.to == Tier::kStorage) {
      part.storage = storage_ranges_.of(id);
    }
    if (transfer.to == Tier::kDevice) {
      state_.backing.comes_with_transfer(id);
    }
    command.move.parts.push_back(std::move(part));
  }
  all_there ? state_.queue->push_ahead(std::move(command)) : state_.queue->push(std::move(command));
}

// Nobody has promised zeros.
void CudaMechanism::zero(std::span<const BlockId> /*blocks*/) {}

void CudaMechanism::map(std::span<const BlockId> blocks, bool /*writable*/) {
  for (const BlockId id : blocks) {
    if (!state_.backing.is_none(id)) {
      continue;
    }
    state_.launches.came_from(id, Source::kZeros);
    // Not ahead of orders that count on its frame; the driver thread takes it back behind them.
    if (state_.backing.end_kept(id) && state_.queue->empty() && state_.queue->take_back(id)) {
      backed(id);
      continue;
    }
    state_.queue->push({.kind = DriverCommand::Kind::kBack,
                        .block = id,
                        .address = state_.memory->address_of(id),
                        .bytes = state_.bytes_of(id),
                        .serial = state_.backing.order(id)});
  }
}

// No launch that names the block has been released and not ended, and none will be before the next
// map: its stream wait is pending.
void CudaMechanism::unmap(std::span<const BlockId> /*blocks*/) {}

void CudaMechanism::drop(std::span<const BlockId> blocks, Tier tier) {
  for (const BlockId id : blocks) {
    if (tier != Tier::kDevice) {
      (tier == Tier::kHost ? state_.host_ranges : storage_ranges_).give_back(id);
      continue;
    }
    const bool was_there = state_.backing.drop(id);
    const Block& dropped = state_.engine.space().block(id);
    if (was_there && state_.governor.all_fits() && dropped.contents == Contents::kDiscarded &&
        dropped.tenants > 0 && !freed_runs_.has(id) && state_.queue->keep_mapped(id)) {
      state_.backing.keep_mapped(id);
      continue;
    }
    state_.queue->push({.kind = DriverCommand::Kind::kDrop, .block = id});
    if (const std::optional<ProgramMemory::Freed> run = freed_runs_.drop(id)) {
      forget_run(*run);
    }
  }
}

BlockId CudaMechanism::holds_frame_of(BlockId block) const {
  return state_.backing.is_kept(block) ? state_.queue->holder_of(block) : kNoBlock;
}

// Its addresses are nobody's when the last of its blocks has been dropped, and that carried out.
void CudaMechanism::freed(AllocationId id) {
  const ProgramMemory::Freed run = state_.memory->freed(id);
  std::vector<BlockId> mapped;
  for (std::uint32_t i = 0; i < run.block_count; ++i) {
    const BlockId block = run.first_block + i;
    if (state_.engine.space().block(block).frames.has(Tier::kDevice)) {
      mapped.push_back(block);
    }
    if (state_.backing.end_kept(block)) {
      state_.queue->push({.kind = DriverCommand::Kind::kDrop, .block = block});
    }
  }
  if (mapped.empty()) {
    forget_run(run);
  } else {
    freed_runs_.add(run, mapped);
  }
}

void CudaMechanism::forget_run(const ProgramMemory::Freed& run) {
  if (run.bytes > 0) {
    state_.queue->push(
        {.kind = DriverCommand::Kind::kForget, .address = run.address, .bytes = run.bytes});
  }
}

void CudaMechanism::faults_served(std::uint64_t /*launch*/) {}

// It may run when all of its blocks have their memory, which may still be on order.
void CudaMechanism::release_launch(std::uint64_t launch,
                                   std::span<const TransferId> /*transfers*/) {
  if (DeviceUpdates::is_tag(launch)) {
    parts_.updates.under_way().released(launch);
    return;
  }
  if (BypassMode::is_hold(launch)) {
    return;
  }
  const auto tag = static_cast<std::uint32_t>(launch);
  std::uint32_t unbacked = 0;
  for (const Access& access : state_.launches.at(tag).accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      if (const BlockId block = access.first_block + i; !state_.backing.is_there(block)) {
        state_.backing.wait(block, tag);
        ++unbacked;
      }
    }
  }
  state_.launches.released(tag, unbacked);
}

void CudaMechanism::backed(BlockId id) {
  for (const std::uint32_t tag : state_.backing.arrived(id)) {
    state_.launches.backed(tag);
  }
}

void CudaMechanism::zero_at_host(std::span<const BlockId> blocks) {
  parts_.updates.zero_at_host(blocks);
}

void CudaMechanism::gave_up(AllocationId id) { state_.recomputing.gave_up(id); }

// --- What has become of it ----------------------------------------------------------------------

bool CudaMechanism::look(const Done& done) {
  Lock lock(state_);
  if (const TimeNs stalled_ns = state_.stalls.current_ns(); stalled_ns > 0) {
    using What = WorkTimes::What;
    state_.queue->times().add(done.copies_in
                                  ? (done.copies_out ? What::kStalledBoth : What::kStalledIn)
                              : done.copies_out ? What::kStalledOut
                                                : What::kStalledIdle,
                              std::min(done.since_ns, stalled_ns));  // the round may be much older
  }
  for (const DriverCommand& command : done.forgotten) {
    state_.memory->give_back(command.address, command.bytes);
  }
  for (const CommandListener::Backed& it : done.backed) {
    // It may have been dropped, and ordered again, since.
    if (state_.backing.is_ordered(it.block, it.serial)) {
      backed(it.block);
    }
  }
  for (const MoveEnded& it : done.moved) {
    moved(it);
  }
  parts_.exports.shared(done.shared);
  parts_.markers.take_ends();
  parts_.host.look_for_host_mapped_memory();
  check_progress();
  const bool somebody_waits =
      state_.launches.waiting() > 0 || state_.held > 0 || parts_.updates.under_way().some_wait();
  const bool is_news = !done.empty() || state_.broken;
  lock.unlock();  // or who is told would wait for it
  if (is_news) {
    state_.changed.notify_all();
  }
  return somebody_waits;
}

void CudaMechanism::moved(const MoveEnded& ended) {
  const Move& move = ended.move;
  parts_.updates.under_way().transfer_ended(move, ended.error == 0);
  if (EventLog* const events = state_.log.events(); events != nullptr && ended.error == 0) {
    log_transfer(*events, ended);
  }
  const bool host_mapped = std::any_of(move.parts.begin(), move.parts.end(),
                                       [](const Move::Part& part) { return part.host_mapped; });
  if (host_mapped && ended.error == ENOMEM && move.to == Tier::kDevice) {
    parts_.host.no_host_mapped_memory();
    state_.engine.transfer_failed(move.id);
    return;
  }
  if (ended.error != 0) {
    if (report_failed(state_.engine, move.id, move.to, ended.error)) {
      parts_.host.set_limits();
    }
    return;
  }
  if (move.to == Tier::kDevice) {
    for (const Move::Part& part : move.parts) {
      state_.launches.came_from(
          part.block, move.from == Tier::kHost ? Source::kHostCopy : Source::kStorageCopy);
      backed(part.block);
    }
  }
  if (host_mapped) {
    parts_.host.budget().got_host_mapped();
  }
  state_.engine.transfer_finished(move.id);
  parts_.host.want_pinned(state_.engine.used_bytes(Tier::kHost) +
                          2 * state_.options.pinned_piece_bytes);
}

// Others use the card: the budget becomes what there is. What launches have been admitted for and
// now has no room is backed by host memory, and the engine follows as they end.
void CudaMechanism::no_memory(Bytes handle_bytes) {
  const Lock lock(state_);
  if (handle_bytes >= state_.budget_bytes) {
    return;
  }
  state_.bypass.leave();
  state_.queue->push({.kind = DriverCommand::Kind::kBudget, .bytes = handle_bytes});
  if (!std::exchange(said_no_memory_, true)) {
    state_.options.warn(fmt::format(
        "the device has no {} left, others use it: going on with {}; free some of it or lower the "
        "budget",
        format_bytes(state_.budget_bytes), format_bytes(handle_bytes)));
  }
  state_.budget_bytes = handle_bytes;
  parts_.waits.follow_budget();
  parts_.host.set_limits();
}

Error CudaMechanism::out_of_memory(Bytes handle_bytes) {
  const Lock lock(state_);
  if (parts_.host.budget().is_short()) {
    return parts_.host.out_of_host_memory();
  }
  return {ErrorCode::kUnsupported,
          fmt::format("out of device memory: launches need more than the {} that others leave of "
                      "the device; free some of it or lower the budget",
                      format_bytes(handle_bytes))};
}

// The driver thread's. A kernel of the program that fails takes our context with it; the program
// hears of it from the driver, as it would without us. So nobody is told where all that it has is
// lost as well; otherwise it would go on without its memory.
void CudaMechanism::broken(const std::optional<Error>& unreported) {
  const Lock lock(state_);
  bool all_lost = state_.launches.streams() > 0;
  for (StreamId id = 0; unreported && id < state_.launches.streams(); ++id) {
    parts_.markers.ask_whether_alive(id);
    all_lost &= !state_.launches.stream(id).live || state_.launches.stream(id).lost;
  }
  state_.broken = true;
  state_.changed.notify_all();
  if (unreported && !all_lost) {
    state_.failures.fatal(*unreported);
  }
}

// On this platform a launch that was released and stands behind another does not run, so the engine
// cannot tell alone.
void CudaMechanism::check_progress() {
  if (state_.broken) {
    return;
  }
  if (const std::optional<Error>& fatal = state_.engine.fatal()) {
    state_.fail(state_.failures.with_cause(*fatal));
    return;
  }
  parts_.waits.look_for_ends();
  parts_.waits.let_those_together_go();
  const bool moving = state_.launches.waiting() == 0 || state_.engine.transfers_in_flight() > 0 ||
                      !state_.queue->empty() || !state_.launches.all_wait() ||
                      parts_.updates.under_way().some_run();
  const bool host_could_grow = parts_.host.budget().may_grow(parts_.host.most_host_mapped_bytes());
  if (!moving && host_could_grow) {
    parts_.host.want_pinned(parts_.host.budget().pinned_bytes() +
                            state_.options.pinned_piece_bytes);
  }
  if (moving || (host_could_grow && !parts_.host.budget().is_short())) {
    stuck_since_ns_ = 0;
    return;
  }
  const TimeNs at_ns = now_ns();
  if (stuck_since_ns_ == 0) {
    stuck_since_ns_ = at_ns;
  } else if (at_ns - stuck_since_ns_ > (parts_.host.budget().is_short() ? kShortNs : kStuckNs)) {
    state_.fail(parts_.host.budget().is_short()
                    ? parts_.host.out_of_host_memory()
                    : state_.engine.stuck().value_or(
                          Error{ErrorCode::kDefect,
                                "launches wait, and nothing is on its way that could help them"}));
  }
}

Status CudaMechanism::begin(CuContext context) {
  if (Status made = check(state_.driver, "cuMemHostAlloc", state_.stream_waits.make()); !made) {
    return made;
  }
  const Bytes address_bytes = state_.options.address_bytes;
  if (Status made = check(state_.driver, "cuMemAddressReserve",
                          state_.driver.address_reserve(&reservation_, address_bytes, 0, 0, 0));
      !made) {
    return made;
  }
  parts_.recompute.start();
  // Large blocks lie at multiples of their size.
  const std::uint64_t start = round_up(reservation_, state_.options.block_bytes);
  const std::uint64_t end = whole_blocks(reservation_ + address_bytes);
  {
    const Lock lock(state_);
    if (const Bytes bytes = state_.engine.capacity_bytes(Tier::kStorage); bytes > 0) {
      storage_ranges_.add(0, bytes);
    }
    state_.memory = std::make_unique<ProgramMemory>(state_.engine, start, end - start,
                                                    state_.options.block_bytes);
  }
  return parts_.host.start(context);
}

// The driver thread has unmapped everything.
void CudaMechanism::end() {
  parts_.host.end();
  state_.stream_waits.give_back();
  parts_.recompute.end();
  if (reservation_ != 0) {
    (void)state_.driver.address_free(reservation_, state_.options.address_bytes);
  }
}

}  // namespace spillway::cuda
