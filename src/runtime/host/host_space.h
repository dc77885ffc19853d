// A space on this machine, from options that people write: budgets, a place to swap to, a policy by
// name. Layer: runtime.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "platform/host/host_platform.h"
#include "policy/registry.h"

namespace spillway {

struct HostSpaceOptions {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  std::string storage_path;  // empty: no storage
  Bytes storage_bytes = 0;   // 0: what there is
  std::string policy = "deepum";
  PolicyOptions policy_options;
  host::LinkSpeed link;
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

  [[nodiscard]] host::HostPlatform& platform() { return *platform_; }
  [[nodiscard]] const HostSpaceOptions& options() const { return options_; }
  // Whether the policy makes use of knowing what launches use.
  [[nodiscard]] bool learns() const { return options_.policy != "base_uvm"; }

 private:
  HostSpace(HostSpaceOptions options, std::unique_ptr<Policy> policy,
            std::unique_ptr<host::HostPlatform> platform)
      : options_(std::move(options)), policy_(std::move(policy)), platform_(std::move(platform)) {}

  HostSpaceOptions options_;
  std::unique_ptr<Policy> policy_;  // outlives the platform
  std::unique_ptr<host::HostPlatform> platform_;
};

}  // namespace spillway
