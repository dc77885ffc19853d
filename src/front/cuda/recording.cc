// See recording.h.
#include "front/cuda/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "front/cuda/captures.h"
#include "front/cuda/hook_table.h"

namespace spillway::cuda {
namespace detail {

constinit std::atomic<Recording*> the_recording{nullptr};

}  // namespace detail

namespace {

// The operator that runs on this thread, and tells what it is given.
struct CurrentOperator {
  bool runs = false;
  std::vector<ToldOperand> operands;
};

CurrentOperator& current_operator() {
  static thread_local CurrentOperator current;
  return current;
}

std::string device_name(const Driver& driver, CuDevice device) {
  constexpr int kLongest = 256;
  std::array<char, kLongest> name{};
  return driver.device_name(name.data(), kLongest - 1, device) == CuResult::kSuccess
             ? std::string(name.data())
             : std::string("a GPU");
}

}  // namespace

void set_recording(Recording* recording) {
  detail::the_recording.store(recording, std::memory_order_release);
}

std::unique_ptr<Recording> Recording::make(const Driver& driver, const Session& session) {
  std::unique_ptr<Recording> made(new Recording(driver, session));
  Recording& here = *made;
  made->capture_ = capture_if_wanted(device_name(driver, session.device),
                                     {.begin = [&here] { here.begin_recording(); },
                                      .end = [&here] { return here.end_recording(); }});
  return made->capture_ == nullptr ? nullptr : std::move(made);
}

// --- From one end of an iteration to the next ----------------------------------------------------

void Recording::begin_recording() {
  const std::scoped_lock lock(mutex_);
  recorder_.emplace();
  timed_.clear();
  synchronizes_.clear();
  events_used_ = 0;
  ++recording_;
  for (auto& [address, memory] : memories_) {
    memory.fresh = false;
  }
}

// Times are known when the device has come so far; the program's thread waits for it here, as in a
// call of its own. While a stream is captured nobody may wait for the device: that would end the
// program's capture. The iteration is dropped then, and the capture takes a later one.
std::optional<RecordedIteration> Recording::end_recording() {
  const bool ended = !captures_under_way() && wait_for_device();
  const std::scoped_lock lock(mutex_);
  if (!recorder_) {
    return std::nullopt;
  }
  std::optional<RecordedIteration> iteration = recorder_->finish(0, 0);
  recorder_.reset();
  if (!iteration || !ended) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < iteration->trace.kernels.size(); ++i) {
    Kernel& kernel = iteration->trace.kernels[i];
    kernel.duration_ns = duration_ns(timed_[i].from, timed_[i].to);
    kernel.synchronizes = synchronizes_[i];
  }
  return iteration;
}

bool Recording::wait_for_device() {
  session_.platform->before_wait(std::nullopt);
  const CuResult waited = real().cuCtxSynchronize();
  session_.platform->after_wait(std::nullopt);
  if (waited != CuResult::kSuccess) {
    static std::atomic<bool> told{false};
    say_once(told, fmt::format("an iteration is not recorded: to wait for the device failed with "
                               "CUDA error {}",
                               static_cast<int>(waited)));
  }
  return waited == CuResult::kSuccess;
}

TimeNs Recording::duration_ns(CuEvent from, CuEvent to) const {
  constexpr double kNsPerMs = 1e6;
  float milliseconds = 0;
  if (from == nullptr || to == nullptr ||
      driver_.event_elapsed(&milliseconds, from, to) != CuResult::kSuccess) {
    return 1;
  }
  return std::max<TimeNs>(std::llround(static_cast<double>(milliseconds) * kNsPerMs), 1);
}

CuEvent Recording::event() {
  if (events_used_ == all_events_.size()) {
    CuEvent made = nullptr;
    if (driver_.event_create(&made, 0) != CuResult::kSuccess) {
      return nullptr;
    }
    all_events_.push_back(made);
  }
  return all_events_[events_used_++];
}

// --- Launches -----------------------------------------------------------------------------------

std::uint32_t Recording::begin(const CudaLaunch& launch) {
  CuEvent from = nullptr;
  std::uint32_t index = kNone;
  {
    const std::scoped_lock lock(mutex_);
    if (!recorder_) {
      return kNone;
    }
    index = static_cast<std::uint32_t>(timed_.size());
    recorder_->launch(0, launch.name, 0, 0, true);
    for (const CudaOperand& operand : launch.operands) {
      note_operand(operand);
    }
    timed_.emplace_back();
    synchronizes_.push_back(false);
    from = captures_under_way() ? nullptr : event();
  }
  if (from != nullptr && driver_.event_record(from, launch.stream) == CuResult::kSuccess) {
    const std::scoped_lock lock(mutex_);
    if (index < timed_.size()) {
      timed_[index].from = from;
    }
  }
  return index;
}

void Recording::end(std::uint32_t launch, CuStream stream, bool made) {
  if (launch == kNone || !made) {
    return;
  }
  CuEvent to = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    to = recorder_ && launch < timed_.size() ? event() : nullptr;
  }
  if (to != nullptr && driver_.event_record(to, stream) == CuResult::kSuccess) {
    const std::scoped_lock lock(mutex_);
    if (launch < timed_.size()) {
      timed_[launch].to = to;
    }
  }
}

void Recording::synchronized() {
  const std::scoped_lock lock(mutex_);
  if (recorder_ && !synchronizes_.empty()) {
    synchronizes_.back() = true;
  }
}

// --- Memory -------------------------------------------------------------------------------------

// Parameters do not tell reads from writes. What an operator is given and does not change is only
// read; all else may be both, but nobody reads what has only just been allocated.
void Recording::note_operand(const CudaOperand& operand) {
  const auto range = session_.platform->allocation_of(operand.address);
  if (!range) {
    return;
  }
  bool reads = operand.mode == AccessMode::kRead || operand.mode == AccessMode::kReadWrite;
  bool writes = operand.mode != AccessMode::kRead;
  if (reads && writes) {
    const CurrentOperator& current = current_operator();
    const auto told =
        std::find_if(current.operands.begin(), current.operands.end(), [&](const auto& one) {
          return one.address >= range->start && one.address < range->start + range->bytes;
        });
    writes = !current.runs || told == current.operands.end() || told->writes;
  }
  const Bytes bytes = session_.heap->bytes_of(range->start).value_or(range->bytes);
  note_access(range->start, bytes, reads, writes);
}

void Recording::note_access(std::uint64_t start, Bytes bytes, bool reads, bool writes) {
  const auto [at, added] =
      memories_.try_emplace(start, Memory{.id = static_cast<AllocationId>(memories_.size())});
  Memory& memory = at->second;
  if (!std::exchange(memory.fresh, false) && reads) {
    recorder_->access(memory.id, bytes, false);
  } else {
    writes = true;
  }
  if (writes) {
    recorder_->access(memory.id, bytes, true);
  }
}

// Its address may have been another's in this iteration, or before.
void Recording::allocated(std::uint64_t address) {
  const std::scoped_lock lock(mutex_);
  const auto [at, added] =
      memories_.try_emplace(address, Memory{.id = static_cast<AllocationId>(memories_.size())});
  at->second.fresh = recorder_.has_value();
  if (recorder_) {
    recorder_->died(at->second.id);
  }
}

void Recording::freed(std::uint64_t address) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = memories_.find(address); recorder_ && found != memories_.end()) {
    recorder_->died(found->second.id);
  }
}

// --- Operators ----------------------------------------------------------------------------------

void Recording::operator_begins(std::span<const ToldOperand> operands) {
  CurrentOperator& current = current_operator();
  current.runs = true;
  current.operands.assign(operands.begin(), operands.end());
}

void Recording::operator_ends() { current_operator().runs = false; }

}  // namespace spillway::cuda

// What python/spillway/operands.py calls.
extern "C" {

struct spillway_operand {  // NOLINT(readability-identifier-naming): as Python declares it
  void* address;
  std::size_t bytes;
  int writes;
};

int spillway_wants_operands() {
  spillway::cuda::Recording* const here = spillway::cuda::recording();
  const spillway::cuda::ProgramCall inside;
  return here != nullptr && here->iteration_ended() ? 1 : 0;
}

int spillway_capture_wants_operands() {
  const spillway::cuda::Recording* const here = spillway::cuda::recording();
  return here != nullptr && here->wants_operands() ? 1 : 0;
}

int spillway_operator(const char* /*name*/, const spillway_operand* operands, std::size_t count) {
  if (spillway::cuda::Recording* const here = spillway::cuda::recording()) {
    std::vector<spillway::cuda::ToldOperand> told;
    for (const spillway_operand& operand : std::span(operands, count)) {
      told.push_back({.address = reinterpret_cast<std::uint64_t>(operand.address),
                      .writes = operand.writes != 0});
    }
    here->operator_begins(told);
  }
  return 0;
}

int spillway_operator_done(const char* /*name*/, const spillway_operand* /*operands*/,
                           std::size_t /*count*/) {
  if (spillway::cuda::Recording* const here = spillway::cuda::recording()) {
    here->operator_ends();
  }
  return 0;
}
}
