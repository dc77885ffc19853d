// See recording.h.
#include "interpose/cuda/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {
namespace detail {

constinit std::atomic<Recording*> the_recording{nullptr};

}  // namespace detail

namespace {

// The operator that runs on this thread, and tells what it is given.
struct CurrentOperator {
  bool runs = false;
  std::vector<AnnouncedOperand> operands;
};

CurrentOperator& current_operator() {
  static thread_local CurrentOperator current;
  return current;
}

}  // namespace

void set_recording(Recording* recording) {
  detail::the_recording.store(recording, std::memory_order_release);
}

std::unique_ptr<Recording> Recording::make(const Driver& driver, const Session& session) {
  std::unique_ptr<Recording> made(new Recording(driver, session));
  Recording& here = *made;
  const std::string name = device_name(driver, session.device);
  made->capture_ = capture_if_wanted(name.empty() ? "a GPU" : name,
                                     {.begin = [&here] { here.begin_recording(); },
                                      .end = [&here] { return here.end_recording(); }});
  return made->capture_ == nullptr ? nullptr : std::move(made);
}

// --- From one end of an iteration to the next ----------------------------------------------------

void Recording::begin_recording() {
  const MutexLock lock(mutex_);
  recorder_.emplace();
  ++recording_;
}

// Times are known when the device has come so far; the program's thread waits for it here, as in a
// call of its own. While a stream is captured nobody may wait for the device: that would end the
// program's capture. The iteration is dropped then, and the capture takes a later one.
std::optional<RecordedIteration> Recording::end_recording() {
  const bool ended = !captures_under_way() && wait_for_device();
  const MutexLock lock(mutex_);
  if (!recorder_) {
    return std::nullopt;
  }
  std::optional<RecordedIteration> iteration = recorder_->finish(0, 0);
  if (!ended) {
    iteration.reset();
  }
  for (std::size_t i = 0; iteration && i < iteration->trace.kernels.size(); ++i) {
    Kernel& kernel = iteration->trace.kernels[i];
    kernel.duration_ns = duration_ns(timed_[i].from, timed_[i].to);
    kernel.synchronizes = synchronizes_[i];
  }
  forget_recording();
  return iteration;
}

void Recording::forget_recording() {
  recorder_.reset();
  for (const Timed& timed : timed_) {
    destroy(timed);
  }
  timed_ = {};
  synchronizes_ = {};
  memories_ = {};
}

bool Recording::wait_for_device() {
  session_.platform->streams().before_wait(std::nullopt);
  const CuResult waited = real().cuCtxSynchronize();
  session_.platform->streams().after_wait(std::nullopt);
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

CuEvent Recording::recorded_event(CuStream stream) const {
  CuEvent event = nullptr;
  if (driver_.event_create(&event, 0) != CuResult::kSuccess) {
    return nullptr;
  }
  if (driver_.event_record(event, stream) != CuResult::kSuccess) {
    (void)driver_.event_destroy(event);
    return nullptr;
  }
  return event;
}

void Recording::destroy(const Timed& timed) const {
  for (const CuEvent event : {timed.from, timed.to}) {
    if (event != nullptr) {
      (void)driver_.event_destroy(event);
    }
  }
}

// --- Launches -----------------------------------------------------------------------------------

// When there is an iteration, launches cost the program what they cost without a recording.
void Recording::announce(std::string_view name) {
  if (capture_->done()) {
    set_recording(nullptr);
    return;
  }
  capture_->operands_told(false);  // by every launch
  capture_->launched(name, false);
}

RecordedLaunch Recording::begin(const CudaLaunch& launch) {
  RecordedLaunch begun;
  {
    const MutexLock lock(mutex_);
    if (!recorder_) {
      return begun;
    }
    begun.recording = recording_;
  }
  begun.from = captures_under_way() ? nullptr : recorded_event(launch.stream);
  return begun;
}

// Only now it is known that there is a launch. Another thread may have ended the recording since,
// and begun another: this launch is in neither.
void Recording::end(const RecordedLaunch& begun, const CudaLaunch& launch, bool made) {
  if (begun.recording == 0) {
    return;
  }
  const Timed timed{.from = begun.from,
                    .to = begun.from == nullptr || !made ? nullptr : recorded_event(launch.stream)};
  const MutexLock lock(mutex_);
  if (!made || !recorder_ || begun.recording != recording_) {
    destroy(timed);
    return;
  }
  recorder_->launch(0, launch.name, 0, 0, true);
  for (const CudaOperand& operand : launch.operands) {
    note_operand(*recorder_, operand);
  }
  timed_.push_back(timed);
  synchronizes_.push_back(false);
}

void Recording::synchronized() {
  const MutexLock lock(mutex_);
  if (recorder_ && !synchronizes_.empty()) {
    synchronizes_.back() = true;
  }
}

// --- Memory -------------------------------------------------------------------------------------

// Parameters do not tell reads from writes. What an operator is given and does not change is only
// read; all else may be both, but nobody reads what has only just been allocated.
// In memory that PyTorch divides, tensors; elsewhere allocations.
void Recording::note_operand(IterationRecorder& recorder, const CudaOperand& operand) {
  if (const auto tensor = session_.segments->tensor_at(operand.address)) {
    note_operand(recorder, operand, *tensor);
    return;
  }
  for (const AddressRange& range :
       session_.platform->placed().allocations_in(operand.address, operand.bytes)) {
    note_operand(recorder, operand, range);
  }
}

void Recording::note_operand(IterationRecorder& recorder, const CudaOperand& operand,
                             const AddressRange& range) {
  bool reads = operand.mode == AccessMode::kRead || operand.mode == AccessMode::kReadWrite ||
               operand.mode == AccessMode::kExpose;
  bool writes = operand.mode != AccessMode::kRead;
  if (reads && writes) {
    const CurrentOperator& current = current_operator();
    const auto told =
        std::find_if(current.operands.begin(), current.operands.end(), [&](const auto& one) {
          return one.address >= range.start && one.address < range.start + range.bytes;
        });
    writes = !current.runs || told == current.operands.end() || told->writes;
  }
  const Bytes asked_bytes = session_.heap->bytes_of(range.start).value_or(range.bytes);
  const Bytes bytes = std::min(range.bytes, asked_bytes);
  note_access(recorder, range.start, bytes, reads, writes);
}

Recording::Memory& Recording::memory_at(std::uint64_t address) {
  const auto id = static_cast<AllocationId>(memories_.size());
  return memories_.try_emplace(address, Memory{.id = id}).first->second;
}

void Recording::note_access(IterationRecorder& recorder, std::uint64_t start, Bytes bytes,
                            bool reads, bool writes) {
  Memory& memory = memory_at(start);
  if (!std::exchange(memory.fresh, false) && reads) {
    recorder.access(memory.id, bytes, false);
  } else {
    writes = true;
  }
  if (writes) {
    recorder.access(memory.id, bytes, true);
  }
}

// Its address may have been another's in this iteration, or before.
void Recording::allocated(std::uint64_t address) {
  const MutexLock lock(mutex_);
  if (!recorder_) {
    return;
  }
  Memory& memory = memory_at(address);
  memory.fresh = true;
  recorder_->died(memory.id);
}

void Recording::freed(std::uint64_t address) {
  const MutexLock lock(mutex_);
  if (const auto found = memories_.find(address); recorder_ && found != memories_.end()) {
    recorder_->died(found->second.id);
  }
}

// --- Operators ----------------------------------------------------------------------------------

void Recording::operator_begins(std::span<const AnnouncedOperand> operands) {
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
  const spillway::cuda::ProgramCall inside(spillway::cuda::CallKind::kOther);
  return here != nullptr && here->iteration_ended() ? 1 : 0;
}

int spillway_forward_wants_operands() {
  const spillway::cuda::Recording* const here = spillway::cuda::recording();
  return here != nullptr && here->wants_operands() ? 1 : 0;
}

int spillway_operator(const char* /*name*/, const spillway_operand* operands, std::size_t count) {
  if (spillway::cuda::Recording* const here = spillway::cuda::recording()) {
    std::vector<spillway::cuda::AnnouncedOperand> told;
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
