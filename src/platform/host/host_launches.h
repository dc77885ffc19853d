// The program's launches on the host: operators that are about to run, named with what they use or
// only marked. Layer: platform, host. With the platform's lock held, but for the marks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "platform/common/launch_log.h"
#include "platform/common/process/undisturbed_mutex.h"
#include "platform/common/program_platform.h"
#include "platform/common/stall_clock.h"
#include "platform/host/pages/address_space.h"
#include "platform/host/pages/device_pages.h"
#include "platform/host/pages/launch_marks.h"

namespace spillway::host {

class HostLaunches {
 public:
  // All of them must outlive it. `bytes_in_use`: what the program has of an allocation, whose rest
  // may be nobody's.
  HostLaunches(Engine& engine, const AddressSpace& addresses, const DevicePages& pages,
               LaunchLog& log, StallClock& stalls, std::function<Bytes(AllocationId)> bytes_in_use)
      : engine_(engine),
        addresses_(addresses),
        pages_(pages),
        log_(log),
        stalls_(stalls),
        bytes_in_use_(std::move(bytes_in_use)) {}

  // See ProgramPlatform. `mutex` is the platform's, and is let go while it waits.
  LaunchId begin(std::string_view name, std::span<const ProgramOperand> operands,
                 const std::function<void()>& in_line, UndisturbedMutex& mutex)
      SPILLWAY_REQUIRES(mutex);
  [[nodiscard]] LaunchFit fit(std::span<const ProgramOperand> operands) const;
  // Any thread's, without the lock. True if somebody should take it up soon.
  bool mark(const LaunchHash& hash, std::string_view name, bool tells_all);
  void mark_access(const void* start, Bytes bytes, bool writes);

  // What has been marked begins, ends and uses memory now.
  void take_marks();
  // Who allocates memory, or takes it up again, is about to use it.
  void about_to_use(BlockId first_block, std::uint32_t block_count);
  // What was launched before the death comes before it.
  void record_death(AllocationId id);
  // Something has had to leave: what is launched should be known at once from now on.
  void pressed() { pressed_.store(true, std::memory_order_relaxed); }

  // A block is there, and launches that wait for it should count it.
  void mapped(BlockId block);
  // Mechanism::release_launch.
  void released(std::uint64_t tag);

  // Who faults now does so during this launch.
  [[nodiscard]] const Launch& latest() const { return latest_; }
  [[nodiscard]] LogRow latest_row() const { return latest_row_; }
  [[nodiscard]] TimeNs waited_ns() const { return waited_ns_; }  // of named launches

 private:
  // A named launch that waits, and what for.
  struct Waiting {
    LogRow row = kNoLogRow;
    std::set<BlockId> missing;
    TimeNs since_ns = 0;  // the last of them came, or it began
  };
  void add_accesses(const ProgramOperand& operand, Launch& launch) const;
  LaunchAdmission issue(const Launch& launch, LogRow row);
  void wait(const Launch& launch, LogRow row, UndisturbedMutex& mutex) SPILLWAY_REQUIRES(mutex);
  void begin_marked(const LaunchMark& mark);
  void use_marked(const LaunchMark& mark);
  using Uses = std::vector<std::pair<BlockId, std::uint32_t>>;
  Uses& uses_of(ExecutionId execution);

  Engine& engine_;
  const AddressSpace& addresses_;
  const DevicePages& pages_;
  LaunchLog& log_;
  StallClock& stalls_;
  std::function<Bytes(AllocationId)> bytes_in_use_;
  LaunchMarks marks_;
  std::vector<LaunchMark> taken_;   // its memory
  std::uint64_t next_tag_ = 1;      // of launches
  Launch latest_;                   // that began last, without its operands
  LogRow latest_row_ = kNoLogRow;   // its
  std::optional<LaunchId> marked_;  // the launch that the last mark began
  bool marked_tells_all_ = false;
  // What launches that are only marked said that they use, first block and count, by execution.
  // Reads stop nowhere, so that is how prefetches are known to have been of use.
  std::vector<Uses> uses_;
  std::vector<std::uint64_t> ready_;  // tags
  std::condition_variable launch_ready_;
  std::vector<Waiting*> waiting_;
  TimeNs waited_ns_ = 0;
  std::atomic<bool> pressed_{false};
};

}  // namespace spillway::host
