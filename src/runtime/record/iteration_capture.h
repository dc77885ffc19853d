// Watches a running program for one whole iteration, and leaves it in a file for who started the
// program. Layer: runtime. docs/traces.md. Thread-safe.
// Where iterations end the program says, or it is found; what happens in one somebody else records.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "policy/prediction/iteration_finder.h"
#include "policy/prediction/recorded_iteration.h"
#include "runtime/record/captured_iteration.h"

namespace spillway {

struct CaptureOptions {
  std::string folder;         // where the file comes to lie
  std::uint64_t warm_up = 2;  // iterations that pass before anything is recorded
  std::string device;         // for people
};

// SPILLWAY_CAPTURE (the folder) and SPILLWAY_CAPTURE_WARM_UP, as `spillway record` sets them;
// nullopt without.
[[nodiscard]] std::optional<CaptureOptions> capture_options_from_environment();
// The file of a process in that folder, and of all of them those that can be read.
[[nodiscard]] std::string captured_file(const std::string& folder, std::int64_t pid);
[[nodiscard]] std::vector<CapturedIteration> read_captured_iterations(const std::string& folder);

class IterationCapture {
 public:
  // Who records: from `begin` to `end`, which is nullopt if nothing was launched. Called one at a
  // time, and neither may call back.
  struct Source {
    std::function<void()> begin;
    std::function<std::optional<RecordedIteration>()> end;
  };
  IterationCapture(CaptureOptions options, Source source)
      : options_(std::move(options)), source_(std::move(source)) {}

  // The program says that an iteration has ended: whether it should say of the next one what its
  // launches use. As soon as it has said so once, nothing is found any more, and what was found
  // before does not count: a first step's layers look like iterations.
  bool iteration_ended();
  // A launch is about to be recorded. Equal names are the same code. `part`: it is part of the one
  // before it, which says what both use.
  void launched(std::string_view name, bool part);
  // The program has said what a launch uses. `changes`: it says of what it changes that it reads
  // it.
  void operands_told(bool changes) {
    told_.store(true, std::memory_order_relaxed);
    tells_changes_.store(changes, std::memory_order_relaxed);
  }
  [[nodiscard]] bool wants_operands() const { return wants_.load(std::memory_order_relaxed); }
  // There is one, and nothing more is to be said.
  [[nodiscard]] bool done() const { return done_.load(std::memory_order_relaxed); }
  // The program ends: if there is no iteration, how far it came is left.
  void finish();

 private:
  enum class Phase : std::uint8_t { kWarmingUp, kTiming, kAwaitingOperands, kUsing, kDone };
  bool boundary() SPILLWAY_REQUIRES(mutex_);
  void begin(Phase phase) SPILLWAY_REQUIRES(mutex_);
  void used(RecordedIteration iteration, std::uint64_t launches) SPILLWAY_REQUIRES(mutex_);
  void start_over() SPILLWAY_REQUIRES(mutex_);
  void found() SPILLWAY_REQUIRES(mutex_);
  void give_up() SPILLWAY_REQUIRES(mutex_);
  void leave() SPILLWAY_REQUIRES(mutex_);

  const CaptureOptions options_;
  const Source source_;
  Mutex mutex_;
  Phase phase_ SPILLWAY_GUARDED_BY(mutex_) = Phase::kWarmingUp;
  IterationFinder finder_ SPILLWAY_GUARDED_BY(mutex_);
  bool said_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::uint64_t launches_ SPILLWAY_GUARDED_BY(mutex_) = 0;        // since an iteration began
  std::uint64_t taken_launches_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // of the iteration that was taken
  unsigned longer_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // found ones that were much longer, in a row
  std::vector<bool> parts_ SPILLWAY_GUARDED_BY(mutex_);  // of the launches since an iteration began
  std::vector<Kernel> times_ SPILLWAY_GUARDED_BY(mutex_);  // of the iteration that was timed
  unsigned tries_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // since it was: how many were of another length
  unsigned timings_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // how many have been timed in vain
  CapturedIteration captured_ SPILLWAY_GUARDED_BY(mutex_);
  std::atomic<bool> told_{false};
  std::atomic<bool> tells_changes_{false};
  std::atomic<bool> wants_{false};
  std::atomic<bool> done_{false};
};

// For a process that `spillway record` has started; nullptr in any other.
[[nodiscard]] std::unique_ptr<IterationCapture> capture_if_wanted(const std::string& device,
                                                                  IterationCapture::Source source);

}  // namespace spillway
