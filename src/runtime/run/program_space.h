// A space on this machine, from options that people write: budgets, a place to swap to, a policy by
// name. Layer: runtime.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/mutex.h"
#include "platform/common/program_platform.h"
#include "policy/prediction/recorded_iteration.h"
#include "policy/profiled.h"
#include "policy/registry.h"
#include "runtime/record/found_iterations.h"
#include "runtime/record/iteration_capture.h"
#include "runtime/run/plan_watch.h"
#include "runtime/run/program_plan.h"
#include "runtime/run/space_options.h"

namespace spillway {

class ProgramSpace {
 public:
  // Fails with kInvalidInput, kUnsupported or kCannotRun.
  static Result<std::unique_ptr<ProgramSpace>> open(const SpaceOptions& options);
  ~ProgramSpace();
  ProgramSpace(const ProgramSpace&) = delete;
  ProgramSpace& operator=(const ProgramSpace&) = delete;

  [[nodiscard]] ProgramPlatform& platform() { return *platform_; }
  [[nodiscard]] const SpaceOptions& options() const { return options_; }

  // The program says that an iteration has ended; by one thread at a time. True if it should say of
  // the next one what its launches use: seldom, since saying it costs time. Policies that plan make
  // their plan when that one has ended, and another when the program has changed since; policies
  // with tables are told again ever more seldom, as long as data moves.
  [[nodiscard]] bool iteration_ended();
  // The same of a program that says nothing of iterations: it is found that one begins with the
  // next launch, after one of so many. Does nothing once the program has said so itself: a first
  // step's layers look like iterations. Only for policies that plan, and only when data has moved.
  // True if the program should be asked to say what its launches use, again and again until it
  // does, and then until `wants_operands` no longer holds; what it says in the middle of an
  // iteration does not count. By the thread that launches.
  [[nodiscard]] bool iteration_found(std::uint64_t launches);
  [[nodiscard]] bool wants_operands() const {
    return asked_.load(std::memory_order_relaxed) ||
           (capture_ != nullptr && capture_->wants_operands());
  }
  // It has said of a launch what that uses.
  void operands_told() { told_.store(true, std::memory_order_relaxed); }
  // Whether the iteration that runs is the one of which that was asked.
  [[nodiscard]] bool watches() const {
    return watching_.load(std::memory_order_relaxed) ||
           (capture_ != nullptr && capture_->wants_operands());
  }
  // Under `spillway record`, which wants one iteration before any policy does; otherwise nullptr.
  [[nodiscard]] IterationCapture* capture() { return capture_.get(); }
  // The program itself wishes for memory of one allocation ahead of need; see ProgramPlatform. To
  // the first tier below the device that there is. Both are counted. By any thread.
  void prefetch(void* start, Bytes bytes);
  void pre_evict(void* start, Bytes bytes);
  // To that tier; false, and nothing is done, if the run has none.
  bool pre_evict(void* start, Bytes bytes, Tier to);
  [[nodiscard]] Bytes asked_prefetch_bytes() const { return asked_prefetch_bytes_; }
  [[nodiscard]] Bytes asked_pre_evict_bytes() const { return asked_pre_evict_bytes_; }
  // What came of planning; nullopt before, and for policies that do not plan.
  [[nodiscard]] std::optional<PlanReport> plan_report() const;

 private:
  ProgramSpace(SpaceOptions options, const PolicyInfo& info)
      : options_(std::move(options)), info_(info) {}
  [[nodiscard]] bool capturing() const { return capture_ != nullptr && !capture_->done(); }
  [[nodiscard]] bool should_watch();
  void forget_found();
  void begin_watch();
  void end_watch();
  bool has_moved();
  void make_plan(const RecordedIteration& iteration);

  SpaceOptions options_;
  const PolicyInfo& info_;
  std::unique_ptr<Policy> policy_;  // outlives the platform
  Profiled* profiled_ = nullptr;    // policy_, where it plans
  std::unique_ptr<ProgramPlatform> platform_;
  std::unique_ptr<IterationCapture> capture_;
  std::uint64_t iterations_ = 0;
  std::uint64_t next_watch_ = 0;
  Bytes moved_bytes_ = 0;
  std::atomic<bool> watching_{false};
  PlanWatch plan_watch_;
  bool said_ = false;  // the program, of an iteration
  FoundIterations found_;
  std::uint32_t unlike_ = 0;  // watched in vain: it was not like those before it
  std::atomic<bool> asked_{false};
  std::atomic<bool> told_{false};
  std::atomic<Bytes> asked_prefetch_bytes_{0};
  std::atomic<Bytes> asked_pre_evict_bytes_{0};
  mutable Mutex report_mutex_;
  std::optional<PlanReport> report_ SPILLWAY_GUARDED_BY(report_mutex_);
};

}  // namespace spillway
