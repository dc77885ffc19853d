// Under `spillway record`: one iteration of a program on a GPU. Layer: interpose, cuda.
// docs/traces.md. Sees what is put on streams, with what it uses, and what is allocated and
// freed; times launches by events around them. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/session.h"
#include "platform/cuda/driver/driver.h"
#include "policy/prediction/recorded_iteration.h"
#include "runtime/record/iteration_capture.h"

namespace spillway::cuda {

// Of one operator of PyTorch, what it is given.
struct AnnouncedOperand {
  std::uint64_t address = 0;
  bool writes = false;
};

// A launch that is being made, between Recording::begin and end: of which recording it is (0: of
// none), and the event before it, if there is one.
struct RecordedLaunch {
  std::uint64_t recording = 0;
  CuEvent from = nullptr;
};

class Recording {
 public:
  // Both must outlive it. nullptr unless the process is recorded.
  static std::unique_ptr<Recording> make(const Driver& driver, const Session& session);

  // A launch is about to be told to the platform: an iteration may end here, and then the program's
  // thread waits for its device.
  void announce(std::string_view name);
  // Around the making of a launch: right before it, behind its stream wait, and right after it.
  // What `begin` gives is for `end`, once. One that the driver has refused (not `made`) is none.
  RecordedLaunch begin(const CudaLaunch& launch);
  void end(const RecordedLaunch& begun, const CudaLaunch& launch, bool made);
  // The program's thread has waited for its device.
  void synchronized();
  void allocated(std::uint64_t address);
  void freed(std::uint64_t address);

  // Operators of PyTorch begin and end on the calling thread; launches in between are theirs.
  void operator_begins(std::span<const AnnouncedOperand> operands);
  void operator_ends();
  // See IterationCapture.
  bool iteration_ended() { return capture_->iteration_ended(); }
  [[nodiscard]] bool wants_operands() const { return capture_->wants_operands(); }
  void finish() { capture_->finish(); }

 private:
  Recording(const Driver& driver, const Session& session) : driver_(driver), session_(session) {}
  void begin_recording();
  std::optional<RecordedIteration> end_recording();
  bool wait_for_device();
  void note_operand(IterationRecorder& recorder, const CudaOperand& operand)
      SPILLWAY_REQUIRES(mutex_);
  void note_operand(IterationRecorder& recorder, const CudaOperand& operand,
                    const AddressRange& range) SPILLWAY_REQUIRES(mutex_);
  void note_access(IterationRecorder& recorder, std::uint64_t start, Bytes bytes, bool reads,
                   bool writes) SPILLWAY_REQUIRES(mutex_);
  void forget_recording() SPILLWAY_REQUIRES(mutex_);
  // A new one on the stream; nullptr if there can be none.
  CuEvent recorded_event(CuStream stream) const;
  [[nodiscard]] TimeNs duration_ns(CuEvent from, CuEvent to) const;

  // A launch between its two events, which are its own; nullptr where there is none.
  struct Timed {
    CuEvent from = nullptr;
    CuEvent to = nullptr;
  };
  void destroy(const Timed& timed) const;
  struct Memory {
    AllocationId id = 0;
    bool fresh = false;  // allocated since the recording began, and not used yet
  };
  Memory& memory_at(std::uint64_t address) SPILLWAY_REQUIRES(mutex_);

  const Driver driver_;
  const Session& session_;
  std::unique_ptr<IterationCapture> capture_;

  Mutex mutex_;
  std::uint64_t recording_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // how many there have been
  // Of the recording that is under way:
  std::optional<IterationRecorder> recorder_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<Timed> timed_ SPILLWAY_GUARDED_BY(mutex_);                            // by launch
  std::vector<bool> synchronizes_ SPILLWAY_GUARDED_BY(mutex_);                      // likewise
  std::unordered_map<std::uint64_t, Memory> memories_ SPILLWAY_GUARDED_BY(mutex_);  // by address
};

namespace detail {
extern std::atomic<Recording*> the_recording;
}
// nullptr in nearly all processes.
[[nodiscard]] inline Recording* recording() {
  return detail::the_recording.load(std::memory_order_acquire);
}
// From now on the process's, or no longer: nullptr. Threads may still be inside the one before, so
// it must stay.
void set_recording(Recording* recording);

}  // namespace spillway::cuda
