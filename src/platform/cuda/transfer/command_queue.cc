// See command_queue.h.
#include "platform/cuda/transfer/command_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/service_thread.h"
#include "platform/cuda/driver/exporting.h"

namespace spillway::cuda {
namespace {

// How long it sleeps while something is under way that nobody announces: longer the longer nothing
// has come of looking.
constexpr TimeNs kShortestSleepNs = 10'000;
constexpr TimeNs kLongestSleepNs = 200'000;
// The same while copies are under way: what waits for room has to hear soon of launches that end.
constexpr TimeNs kLongestBesideCopiesNs = 30'000;
// After so long the engine hears of what has been done, whatever else has been ordered.
constexpr TimeNs kLongestRoundNs = 200'000;
// For so long after memory was mapped copies out go one by one: more will be (copy_lanes.h).
constexpr TimeNs kOutShortNs = 1'000'000;

}  // namespace

CommandQueue::CommandQueue(const Driver& driver, const Options& options, Failures& failures,
                           CommandListener& listener)
    : driver_(&driver),
      options_(options),
      listener_(&listener),
      pool_(driver, options.device, options.budget_bytes),
      on_host_(driver, options.device, pool_.times(), options.spare_bytes),
      blocks_(driver, pool_, on_host_, options.device),
      trust_(driver, failures),
      moves_(driver, options.storage, options.largest_block_bytes, options.link, failures,
             [this] { wake(); }) {}

Status CommandQueue::start() {
  thread_ = service_thread("spw-cuda", [this] { run(); });
  return begun_.get_future().get();
}

void CommandQueue::stop() {
  stop_ = true;
  wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

TimeNs CommandQueue::processor_ns() const {
  return spillway::processor_ns(thread_) + moves_.lanes().processor_ns();
}

void CommandQueue::push(DriverCommand command) {
  orders_.push(std::move(command));
  wake();
}

void CommandQueue::push_ahead(DriverCommand command) {
  orders_.push_ahead(std::move(command));
  wake();
}

Status CommandQueue::make() {
  WakeUp::make_sleeps_precise();
  stay_out_of_captures(*driver_);
  if (Status made =
          check(*driver_, "cuCtxCreate", driver_->context_create(&context_, 0, options_.device));
      !made) {
    return made;
  }
  options_.direct.times = &pool_.times();
  if (Status made =
          check(*driver_, "cuMemHostAlloc", moves_.make(options_.direct, options_.spare_bytes));
      !made) {
    return made;
  }
  pool_.make_for_direct_storage(moves_.direct());
  pool_.make_exportable(makes_descriptors(*driver_, options_.device));
  return listener_->begin(context_);
}

void CommandQueue::run() {
  Status made = make();
  const bool whole = made.has_value();
  begun_.set_value(std::move(made));
  TimeNs sleep_ns = kShortestSleepNs;
  while (whole && !trust_.is_lost()) {
    orders_.take(taken_);
    start_ahead();
    carry_out_some();
    look_after_copies();
    look_for_memory();
    if (mapped_ns_ != 0 && now_ns() - mapped_ns_ >= kOutShortNs) {
      mapped_ns_ = 0;
      moves_.lanes().keep_out_short(false);
    }
    copied_bytes_ = moves_.lanes().copied_bytes();
    note_link();
    const CommandListener::Done done = std::exchange(done_, {});
    orders_.answered(done.backed.size() + done.moved.size() + done.forgotten.size() + done.shared);
    const bool somebody_waits =
        pool_.times().of(WorkTimes::What::kEngine, [&] { return listener_->look(done); });
    if (stop_ && moves_.idle() && shortage_.empty() && empty()) {
      break;
    }
    if (!done.empty() || !taken_.empty()) {
      sleep_ns = kShortestSleepNs;
      continue;
    }
    const bool soon = somebody_waits || moves_.copies() || !shortage_.empty();
    const TimeNs asleep_ns = now_ns();
    wake_.wait_for(soon ? sleep_ns : WakeUp::kForLongNs);
    pool_.times().add(WorkTimes::What::kAsleep, now_ns() - asleep_ns);
    sleep_ns = std::min(2 * sleep_ns, moves_.copies() ? kLongestBesideCopiesNs : kLongestSleepNs);
  }
  if (trust_.is_lost()) {
    listener_->broken(trust_.unreported());
  }
  while (!stop_) {
    wake_.wait_for(WakeUp::kForLongNs);
  }
  give_back_all();
}

void CommandQueue::look_after_copies() {
  trust_.must(pool_.times().of(WorkTimes::What::kCopies, [&] { return moves_.poll(done_.moved); }),
              "cuEventQuery");
}

// From one round to the next nobody looks: what was under way at its end counts for all of it.
void CommandQueue::note_link() {
  using Direction = CopyLanes::Direction;
  const TimeNs at_ns = now_ns();
  done_.since_ns = round_ns_ == 0 ? 0 : at_ns - round_ns_;
  round_ns_ = at_ns;
  done_.copies_in = moves_.lanes().under_way(Direction::kIn);
  done_.copies_out = moves_.lanes().under_way(Direction::kOut);
  WorkTimes& times = pool_.times();
  times.add(WorkTimes::What::kRound, done_.since_ns);
  times.add(WorkTimes::What::kLinkIn, done_.copies_in ? done_.since_ns : 0);
  times.add(WorkTimes::What::kLinkOut, done_.copies_out ? done_.since_ns : 0);
}

void CommandQueue::start_ahead() {
  for (DriverCommand& command : orders_.take_ahead()) {
    moves_.start(std::move(command.move));
  }
}

// A command takes as long as a copy of a few MiB: between two of them copies are looked after and
// begun, and what has been done is not kept back for long.
void CommandQueue::carry_out_some() {
  const TimeNs until_ns = now_ns() + kLongestRoundNs;
  while (!taken_.empty() && !trust_.is_lost()) {
    if (!carry_out(taken_.front())) {
      shortage_.add(std::move(taken_.front()));
    }
    taken_.pop_front();
    if (trust_.is_lost()) {
      return;
    }
    start_ahead();
    look_after_copies();
    if (!done_.empty() && now_ns() >= until_ns) {
      return;
    }
  }
}

bool CommandQueue::carry_out(DriverCommand& command) {
  switch (command.kind) {
    case DriverCommand::Kind::kBack:
      if (!back(command.block, command.address, command.bytes)) {
        return false;
      }
      done_.backed.push_back({.block = command.block, .serial = command.serial});
      return true;
    case DriverCommand::Kind::kMove:
      if (command.move.to == Tier::kDevice) {
        // Blocks that have their memory keep it meanwhile.
        for (const Move::Part& part : command.move.parts) {
          // What has no host memory fails, and goes to the device (Engine::fetch_failed).
          if (part.host_mapped && !back_host_mapped(part.block, part.address, part.bytes)) {
            command.move.error = ENOMEM;
            break;
          }
          if (!part.host_mapped && !back(part.block, part.address, part.bytes)) {
            return false;
          }
          if (!trust_.is_lost()) {
            start_ahead();
          }
        }
      }
      moves_.start(std::move(command.move));
      return true;
    case DriverCommand::Kind::kDrop:
      drop(command.block);
      orders_.answered(1);
      return true;
    case DriverCommand::Kind::kBudget:
      pool_.set_budget(command.bytes);
      orders_.answered(1);
      return true;
    case DriverCommand::Kind::kTrim:
      pool_.release_what_is_too_much();
      orders_.answered(1);
      return true;
    case DriverCommand::Kind::kShare:
      trust_.must(blocks_.share_with(command.device), "cuMemSetAccess");
      ++done_.shared;
      return true;
    case DriverCommand::Kind::kForget:
      done_.forgotten.push_back(std::move(command));
      return true;
  }
  return true;
}

bool CommandQueue::back(BlockId block, CuAddress address, Bytes bytes) {
  const bool is_new = !blocks_.has(block);
  if (is_new) {
    moves_.lanes().keep_out_short(true);
  }
  const CuResult result = blocks_.back(block, address, bytes);
  if (is_new) {
    mapped_ns_ = now_ns();
  }
  if (result == CuResult::kOutOfMemory) {
    return back_on_host(block, address, bytes);
  }
  trust_.must(result, "cuMemMap");
  return true;
}

// False where there is no host memory for it.
bool CommandQueue::back_host_mapped(BlockId block, CuAddress address, Bytes bytes) {
  if (blocks_.has(block)) {
    return true;
  }
  moves_.lanes().keep_out_short(true);
  const CuResult result = blocks_.back_on_host(block, address, bytes);
  mapped_ns_ = now_ns();
  return result == CuResult::kSuccess;
}

// More than the budget is asked for only for a launch that needs more than that. And a device that
// has had nothing for long may never have: what launches were admitted for must come all the same.
bool CommandQueue::back_on_host(BlockId block, CuAddress address, Bytes bytes) {
  return (pool_.full(bytes) || shortage_.is_long(now_ns())) &&
         blocks_.back_on_host(block, address, bytes) == CuResult::kSuccess;
}

void CommandQueue::drop(BlockId block) {
  if (shortage_.give_up(block)) {
    orders_.answered(1);
  }
  trust_.must(blocks_.drop(block), "cuMemUnmap");
}

void CommandQueue::look_for_memory() {
  shortage_.retry([this](DriverCommand& command) { return carry_out(command); });
  if (shortage_.empty()) {
    return;
  }
  const MemoryShortage::Due due = shortage_.look(now_ns());
  if (due.tell) {
    listener_->no_memory(pool_.bytes());
  }
  if (due.give_up) {
    trust_.end(listener_->out_of_memory(pool_.bytes()));
  }
}

void CommandQueue::give_back_all() {
  if (context_ == nullptr) {
    return;
  }
  moves_.end_direct();
  moves_.lanes().stop();
  (void)blocks_.drop_all();
  (void)pool_.release_free();
  (void)on_host_.release_free();
  listener_->end();
  moves_.give_back();
  (void)driver_->context_destroy(context_);
}

}  // namespace spillway::cuda
