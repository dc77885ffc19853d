// What the engine asks for, made into commands for the driver thread, and what becomes of them.
// Layer: platform, cuda. docs/cuda.md. Mechanism's functions are called with the platform's lock
// held, CommandListener's by the driver thread without it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/engine.h"
#include "platform/cuda/memory/freed_runs.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/memory/program_memory.h"
#include "platform/cuda/platform_part.h"
#include "platform/cuda/transfer/command_queue.h"

namespace spillway::cuda {

class CudaMechanism final : public PlatformPart, public Mechanism, public CommandListener {
 public:
  CudaMechanism(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}
  ~CudaMechanism() override = default;

  void start_transfer(const Transfer& transfer) override SPILLWAY_REQUIRES(platform_lock);
  void zero(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(platform_lock);
  void zero_at_host(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(platform_lock);
  void map(std::span<const BlockId> blocks, bool writable) override
      SPILLWAY_REQUIRES(platform_lock);
  void unmap(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(platform_lock);
  void drop(std::span<const BlockId> blocks, Tier tier) override SPILLWAY_REQUIRES(platform_lock);
  void freed(AllocationId id) override SPILLWAY_REQUIRES(platform_lock);
  void gave_up(AllocationId id) override SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] BlockId holds_frame_of(BlockId block) const override
      SPILLWAY_REQUIRES(platform_lock);
  void faults_served(std::uint64_t launch) override SPILLWAY_REQUIRES(platform_lock);
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override
      SPILLWAY_REQUIRES(platform_lock);

  Status begin(CuContext context) override;
  bool look(const Done& done) override;
  void no_memory(Bytes handle_bytes) override;
  [[nodiscard]] Error out_of_memory(Bytes handle_bytes) override;
  void broken(const std::optional<Error>& unreported) override;
  void end() override;

  // --- For other parts

  // A run of addresses is nobody's any more.
  void forget_run(const ProgramMemory::Freed& run);
  // Others use the device, and less than the budget is left.
  [[nodiscard]] bool device_is_short() const SPILLWAY_REQUIRES(platform_lock) {
    return said_no_memory_;
  }

 private:
  void backed(BlockId block) SPILLWAY_REQUIRES(platform_lock);
  void moved(const MoveEnded& ended) SPILLWAY_REQUIRES(platform_lock);
  void check_progress() SPILLWAY_REQUIRES(platform_lock);

  HostRanges storage_ranges_ SPILLWAY_GUARDED_BY(platform_lock);
  FreedRuns freed_runs_ SPILLWAY_GUARDED_BY(platform_lock);
  CuAddress reservation_ = 0;
  TimeNs stuck_since_ns_ SPILLWAY_GUARDED_BY(platform_lock) = 0;
  bool said_no_memory_ SPILLWAY_GUARDED_BY(platform_lock) = false;
};

}  // namespace spillway::cuda
