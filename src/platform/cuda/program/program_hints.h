// What the program itself asks for ahead of need (docs/cuda.md). Layer: platform, cuda. Hints, in
// the order of the launches that have been issued, which change nothing that the program sees; by
// any thread, and none waits.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class ProgramHints : public PlatformPart {
 public:
  ProgramHints(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // Bytes that launches issued from now on will use come to the device, into room that nothing else
  // needs, once those that were issued before are admitted. False, and nothing happens, where the
  // address is not ours.
  bool prefetch(std::uint64_t address, Bytes bytes);
  // Bytes that no launch uses for long leave it behind those that were issued before; not such that
  // others share a block with which have more of it. To `to`, which the run must have (has_tier);
  // nullopt: to host memory, if there is any. False as above.
  bool pre_evict(std::uint64_t address, Bytes bytes, std::optional<Tier> to = std::nullopt);
  [[nodiscard]] bool has_tier(Tier tier) const;
  // These bytes will not be written before their update (host_updates.h), which is issued soon:
  // they are copied to host memory once the launches that have been issued have ended, if nothing
  // else moves.
  void send_to_host(std::uint64_t address, Bytes bytes);

 private:
  [[nodiscard]] Launch mostly_meant(const Launch& named) const SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] std::optional<Launch> asked_for(std::uint64_t address, Bytes bytes) const
      SPILLWAY_REQUIRES(platform_lock);
};

}  // namespace spillway::cuda
