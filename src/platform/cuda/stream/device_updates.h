// Updates: launches that run at the host, on blocks in pinned memory, beside what the device does.
// Layer: platform, cuda. docs/cuda.md, "Updates". Which of them are under way, whose data has come,
// and where that lies; whether one is to begin is host_updates.cc's. With the platform's lock
// held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "platform/common/launch_log.h"
#include "platform/common/program_platform.h"
#include "platform/cuda/memory/host_memory.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/memory/program_memory.h"
#include "platform/cuda/stream/stream_waits.h"
#include "platform/cuda/transfer/moves.h"
#include "policy/updates/update_balance.h"

namespace spillway::cuda {

class DeviceUpdates {
 public:
  DeviceUpdates(Engine& engine, const HostRanges& host_ranges, LaunchLog& log)
      : engine_(engine), host_ranges_(host_ranges), log_(log) {}

  // Tags of launches that are updates. (A hold's is none: that has 32 bits.)
  static constexpr std::uint64_t kTag = std::uint64_t{1} << 63U;
  [[nodiscard]] static bool is_tag(std::uint64_t tag) { return (tag & kTag) != 0; }
  // In timelines they have a line of their own, behind those of all streams.
  static constexpr std::uint32_t kLine = StreamWaits::kStreams;
  static constexpr std::size_t kMost = std::size_t{1} << 17U;  // at once

  // What an update of these operands uses; nullopt where that is not all the space's.
  [[nodiscard]] static std::optional<Launch> launch_of(std::span<const ProgramOperand> operands,
                                                       const ProgramMemory& memory);
  // Where an update of a whole tensor ends first. If that is the host, its bytes count as queued
  // there until its parts have ended or it is withdrawn.
  [[nodiscard]] UpdateBalance::Placement place(const Launch& whole);
  // Accesses of a launch of the program.
  void used(std::span<const Access> accesses) {
    if (has_placed_) {
      balance_.used(accesses);
    }
  }
  void withdrawn(const Launch& whole, Bytes host_bytes) { balance_.withdrawn(whole, host_bytes); }
  // Issues one part of it. `host_bytes`: the part's share of the placement's. The engine has kept
  // room for it.
  UpdateId begin(Launch launch, std::span<const ProgramOperand> operands, Bytes host_bytes);
  // Mechanism::release_launch.
  void released(std::uint64_t tag);
  // One whose data has come, in that order, each once; nullopt: there is none now.
  [[nodiscard]] std::optional<UpdateId> next();
  // Whether one will come that `next` has not named, and has not come yet. `ready_changed` is told
  // when one has.
  [[nodiscard]] bool next_is_awaited() const {
    return ready_.empty() && under_way_.size() > named_;
  }
  [[nodiscard]] std::condition_variable& ready_changed() { return ready_changed_; }
  // Of each operand its bytes in order, where they lie until the end.
  [[nodiscard]] std::vector<Extents> extents(UpdateId update, const ProgramMemory& memory,
                                             const HostMemory& host) const;
  // It has been named by `next`.
  void end(UpdateId update);

  // The platform tells of all its transfers, which are how the link's rates are measured; from the
  // first placement on, before which nobody asks for them.
  void transfer_began(const Transfer& transfer);
  void transfer_ended(const Move& move, bool moved);

  // That have not ended.
  [[nodiscard]] std::size_t any() const { return under_way_.size(); }
  // Whether the data of one has come: it ends by itself.
  [[nodiscard]] bool some_run() const { return running_ > 0; }
  // Whether one still waits for others to end, or for its data.
  [[nodiscard]] bool some_wait() const { return under_way_.size() > running_; }

 private:
  struct UnderWay {
    LaunchId launch = kNoLaunch;
    std::vector<ProgramOperand> operands;
    std::vector<Access> accesses;  // of the first operand, then of the next
    Bytes host_bytes = 0;          // UpdateBalance::Placement
    LogRow row = kNoLogRow;
    TimeNs begun_ns = 0;
  };

  Engine& engine_;
  const HostRanges& host_ranges_;
  LaunchLog& log_;
  UpdateBalance balance_;
  bool has_placed_ = false;  // an update has been placed
  std::map<UpdateId, UnderWay> under_way_;
  std::deque<UpdateId> ready_;  // that `next` has not named
  std::size_t running_ = 0;     // whose data has come
  std::size_t named_ = 0;       // of those, by `next`
  UpdateId last_ = 0;
  std::condition_variable ready_changed_;
};

}  // namespace spillway::cuda
