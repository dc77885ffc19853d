// The platform of a machine without a GPU, from what people say of a space. Layer: runtime.
#pragma once

#include <memory>

#include "base/error.h"
#include "engine/policy.h"
#include "platform/common/program_platform.h"
#include "policy/registry.h"
#include "runtime/run/space_options.h"

namespace spillway {

// The policy, which has these traits, must outlive it. Fails like SwapFile::open and
// HostPlatform::create.
[[nodiscard]] Result<std::unique_ptr<ProgramPlatform>> open_host_platform(
    const SpaceOptions& options, const PolicyTraits& traits, Policy& policy);

}  // namespace spillway
