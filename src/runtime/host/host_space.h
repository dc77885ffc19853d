// A space on this machine, from options that people write: budgets, a place to swap to, a policy by
// name. Layer: runtime.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "platform/common/link_throttle.h"
#include "platform/common/program_platform.h"
#include "policy/profiled.h"
#include "policy/recorded_iteration.h"
#include "policy/registry.h"
#include "runtime/host/host_plan.h"
#include "runtime/host/plan_watch.h"

namespace spillway {

struct HostSpaceOptions {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  std::string storage_path;  // empty: no storage
  Bytes storage_bytes = 0;   // 0: what there is
  std::string policy = "deepum";
  PolicyOptions policy_options;
  LinkSpeed link;
};

// Settings as `spillway run` hands them to a program, each in an environment variable:
// SPILLWAY_DEVICE_MEMORY, SPILLWAY_HOST_MEMORY, SPILLWAY_STORAGE (PATH[:SIZE]), SPILLWAY_POLICY,
// SPILLWAY_LINK_BANDWIDTH (bytes a second), SPILLWAY_FAULT_LATENCY (nanoseconds),
// SPILLWAY_PREFETCH_DEGREE. Sizes may have suffixes. What is not set keeps its default: of the
// memory that is available now, three quarters for the device, half for the host. Fails with
// kInvalidInput and the variable's name.
[[nodiscard]] Result<HostSpaceOptions> host_space_options_from_environment();
// "PATH" or "PATH:SIZE" into the options.
Status set_storage(HostSpaceOptions& options, const std::string& text);
// Memory that programs could have now without swapping.
[[nodiscard]] Bytes available_memory_bytes();

class HostSpace {
 public:
  // Fails with kInvalidInput, kUnsupported or kCannotRun.
  static Result<std::unique_ptr<HostSpace>> open(const HostSpaceOptions& options);

  [[nodiscard]] ProgramPlatform& platform() { return *platform_; }
  [[nodiscard]] const HostSpaceOptions& options() const { return options_; }

  // The program says that an iteration has ended; by one thread at a time. True if it should say of
  // the next one what its launches use: once, since saying it costs time. Policies that plan make
  // their plan when that one has ended, and another when the program has changed since.
  [[nodiscard]] bool iteration_ended();
  // Whether the iteration that runs is the one of which that was asked.
  [[nodiscard]] bool watches() const { return watching_.load(std::memory_order_relaxed); }
  // What came of planning; nullopt before, and for policies that do not plan.
  [[nodiscard]] std::optional<PlanReport> plan_report() const;

 private:
  HostSpace(HostSpaceOptions options, const PolicyInfo& info)
      : options_(std::move(options)), info_(info) {}
  bool watch();
  void make_plan(const RecordedIteration& iteration);

  HostSpaceOptions options_;
  const PolicyInfo& info_;
  std::unique_ptr<Policy> policy_;  // outlives the platform
  Profiled* profiled_ = nullptr;    // policy_, where it plans
  std::unique_ptr<ProgramPlatform> platform_;
  std::uint64_t iterations_ = 0;
  std::atomic<bool> watching_{false};
  PlanWatch plan_watch_;
  mutable std::mutex report_mutex_;
  std::optional<PlanReport> report_;
};

}  // namespace spillway
