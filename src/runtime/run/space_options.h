// What people say of a space: budgets, a place to swap to, a policy by name. Layer: runtime.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/process/memory_room.h"
#include "platform/common/storage/link_throttle.h"
#include "policy/registry.h"

namespace spillway {

struct SpaceOptions {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  std::string storage_path;  // empty: no storage
  Bytes storage_bytes = 0;   // 0: what there is
  std::string policy = "deepum";
  PolicyOptions policy_options;
  LinkSpeed link;
};

// What a space has where nothing else is set.
struct SpaceDefaults {
  std::string policy;
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;                    // at most,
  std::optional<Bytes> beside_each_other;  // and both together, where they are the same memory
  PolicyOptions policy_options;

  // Beside such a device.
  [[nodiscard]] Bytes host_bytes_beside(Bytes device) const;
};

// Where device and host are both memory of this machine: three quarters of what is left for the
// device, half for the host, but no more than the device leaves; the policy deepum.
[[nodiscard]] SpaceDefaults host_defaults(const MemoryRoom& room);
// Settings as `spillway run` hands them to a program, each in an environment variable:
// SPILLWAY_DEVICE_MEMORY, SPILLWAY_HOST_MEMORY, SPILLWAY_STORAGE (PATH[:SIZE]), SPILLWAY_POLICY,
// SPILLWAY_LINK_BANDWIDTH (bytes a second), SPILLWAY_FAULT_LATENCY (nanoseconds),
// SPILLWAY_PREFETCH_DEGREE. Sizes may have suffixes. What is not set has its default. Fails with
// kInvalidInput and the variable's name.
[[nodiscard]] Result<SpaceOptions> space_options_from_environment(const SpaceDefaults& defaults);
// "PATH" or "PATH:SIZE" into the options.
Status set_storage(SpaceOptions& options, const std::string& text);
// Whether there is such a policy, and what it moves data to; kInvalidInput with the reason.
[[nodiscard]] Status check_policy(const SpaceOptions& options);
// Where device and host are both memory of this machine: lowers what is more than can be had beside
// what the program itself needs, the host's first. All that is large is in them, so half of the
// usual part is enough for the rest. A line that says so, or none.
[[nodiscard]] std::string fit_into(const MemoryRoom& room, SpaceOptions& options);

}  // namespace spillway
