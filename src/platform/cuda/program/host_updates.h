// Updates of optimizers that run at the host: which do, and what the program's thread does for
// that. Layer: platform, cuda. docs/near-memory.md, docs/cuda.md. All functions are thread-safe,
// except where one says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "platform/common/program_platform.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/platform_part.h"
#include "platform/cuda/recompute/recomputing.h"
#include "platform/cuda/stream/device_updates.h"

namespace spillway::cuda {

class HostUpdates : public PlatformPart {
 public:
  HostUpdates(PlatformState& state, PlatformParts& parts);

  // Whether begin_updates would take any now: not where everything fits, or while a stream is
  // captured. Waits for nothing.
  [[nodiscard]] bool takes_updates();
  // As ProgramPlatform::begin_update, for all parts of a tensor's update, each with as many
  // operands, by their addresses on the device: each of them runs at the host, or (empty) none
  // does. They come behind all launches that were issued before and use the same bytes, on whatever
  // stream, and before those that are issued later; what comes later on `stream` and uses other
  // memory does not wait for them. Nobody can take them back. By the program's thread, which does
  // not wait for them.
  [[nodiscard]] std::vector<UpdateId> begin_updates(
      std::span<const std::vector<ProgramOperand>> parts, CuStream stream);
  // An update whose data has come: each is named once, and whoever is told of it ends it. Waits;
  // nullopt: all that are under way have been named, or the platform is about to end the run.
  [[nodiscard]] std::optional<UpdateId> next_update();
  // Of each operand its bytes in order, where they lie in host memory until the end.
  [[nodiscard]] std::vector<Extents> update_extents(UpdateId update) const;
  void end_update(UpdateId update);

  // --- For other parts

  // Whether updates may run at the host now, and the order of issue says what comes before what.
  [[nodiscard]] bool has_updates() const SPILLWAY_REQUIRES(platform_lock);
  // Whether all that it uses may be in host memory meanwhile.
  [[nodiscard]] bool may_be_at_host(const Launch& update) const SPILLWAY_REQUIRES(platform_lock);
  // Waits for updates if an allocation of so many bytes would have room without them. Lets go.
  void let_updates_end(Bytes bytes) SPILLWAY_REQUIRES(platform_lock);
  // Whether an update may wait for this launch, behind which no completion marker could stand when
  // the update was issued.
  [[nodiscard]] bool update_may_wait_for(StreamId stream, std::uint64_t number) const
      SPILLWAY_REQUIRES(platform_lock);
  // Mechanism::zero_at_host.
  void zero_at_host(std::span<const BlockId> blocks) SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] DeviceUpdates& under_way() SPILLWAY_REQUIRES(platform_lock) { return updates_; }
  [[nodiscard]] const DeviceUpdates& under_way() const SPILLWAY_REQUIRES(platform_lock) {
    return updates_;
  }

 private:
  // All parts of an update, as launches.
  struct WholeUpdate {
    std::vector<Launch> parts;
    Launch whole;          // all of them together
    Bytes host_bytes = 0;  // that the processor will move
  };

  [[nodiscard]] std::optional<WholeUpdate> make_ready(
      std::span<const std::vector<ProgramOperand>> parts, CuStream stream)
      SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] std::optional<WholeUpdate> launches_of(
      std::span<const std::vector<ProgramOperand>> parts) const SPILLWAY_REQUIRES(platform_lock);
  static void add_to(Launch& whole, const Access& access);
  [[nodiscard]] std::optional<Recomputing::Step> step_before_update(const Launch& whole,
                                                                    StreamId stream)
      SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] std::optional<Bytes> place_at_host(const Launch& whole)
      SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] bool keep_room_at_host(const Launch& whole) SPILLWAY_REQUIRES(platform_lock);

  DeviceUpdates updates_ SPILLWAY_GUARDED_BY(platform_lock);
  // Numbers by stream, when one began last.
  std::vector<std::uint64_t> issued_before_updates_ SPILLWAY_GUARDED_BY(platform_lock);
};

}  // namespace spillway::cuda
