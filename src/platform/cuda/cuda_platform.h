// Programs on an NVIDIA GPU that need more device memory than their budget: stable addresses whose
// memory comes and goes, launches behind stream waits. Layer: platform, cuda. docs/cuda.md.
// It sees a program as its interposer tells of it: allocations, launches with what they use and the
// stream that they are issued to, and what the program waits for. It decides nothing about
// migration. All functions are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/policy.h"
#include "platform/common/observed_platform.h"
#include "platform/common/storage/swap_file.h"
#include "platform/cuda/cuda_options.h"
#include "platform/cuda/program/call_bypass.h"
#include "platform/cuda/program/exported_memory.h"
#include "platform/cuda/program/host_updates.h"
#include "platform/cuda/program/launch_issue.h"
#include "platform/cuda/program/placed_memory.h"
#include "platform/cuda/program/program_allocations.h"
#include "platform/cuda/program/program_hints.h"
#include "platform/cuda/program/program_streams.h"
#include "platform/cuda/recompute/recompute_steps.h"

namespace spillway::cuda {

class CudaPlatform final : public ObservedPlatform {
 public:
  // The driver has been initialized, and the program's context exists or will; the policy must
  // outlive it. Fails with kUnsupported and what is missing, kInvalidInput for budgets.
  static Result<std::unique_ptr<CudaPlatform>> create(const Driver& driver,
                                                      const CudaOptions& options,
                                                      std::optional<SwapFile> storage,
                                                      Policy& policy);
  // The program's launches have ended, or will by themselves.
  ~CudaPlatform() override;

  // What the program does, by concern. The references are good as long as the platform lives.
  [[nodiscard]] ProgramAllocations& memory() const { return memory_; }
  [[nodiscard]] PlacedMemory& placed() const { return placed_; }
  [[nodiscard]] ExportedMemory& exports() const { return exports_; }
  [[nodiscard]] LaunchIssue& launches() const { return launches_; }
  [[nodiscard]] ProgramStreams& streams() const { return streams_; }
  [[nodiscard]] CallBypass& bypass() const { return bypass_; }
  [[nodiscard]] RecomputeSteps& recompute() const { return recompute_; }
  [[nodiscard]] HostUpdates& updates() const { return updates_; }
  [[nodiscard]] ProgramHints& hints() const { return hints_; }

  // Where time has gone so far, by name: how often and how long (work_times.h).
  struct Work {
    std::string_view name;
    std::uint64_t count = 0;
    TimeNs time_ns = 0;
  };
  [[nodiscard]] std::vector<Work> work() const;

  Status set_device_capacity(Bytes bytes) override;
  [[nodiscard]] ProgramStats stats() const override;
  [[nodiscard]] std::vector<LaunchWaits> waits() const override;
  void log_events(EventLog* events) override;
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override;
  void wait_until_idle() override;
  [[nodiscard]] Status check_invariants() const override;

 private:
  struct Inside;
  explicit CudaPlatform(std::unique_ptr<Inside> inside);

  std::unique_ptr<Inside> inside_;
  ProgramAllocations& memory_;
  PlacedMemory& placed_;
  ExportedMemory& exports_;
  LaunchIssue& launches_;
  ProgramStreams& streams_;
  CallBypass& bypass_;
  RecomputeSteps& recompute_;
  HostUpdates& updates_;
  ProgramHints& hints_;
};

}  // namespace spillway::cuda
