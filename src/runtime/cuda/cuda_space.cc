// See cuda_space.h.
#include "runtime/cuda/cuda_space.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "machine/machine.h"
#include "platform/common/gpu_sizes.h"
#include "policy/planning/learned_plan.h"
#include "policy/registry.h"
#include "runtime/cuda/launch_queue.h"
#include "runtime/run/open_storage.h"
#include "trace/trace.h"

namespace spillway {
namespace {

// Streams that may stand at pending stream waits at once without holding up the others (docs/gpu.md
// section 4).
unsigned waiting_streams() {
  constexpr long kDefaultConnections = 8;
  const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const long connections = set == nullptr ? 0 : std::strtol(set, nullptr, 10);
  return static_cast<unsigned>((connections > 0 ? connections : kDefaultConnections) - 1);
}

Bytes whole_blocks(Bytes bytes) { return bytes / kBlockBytes * kBlockBytes; }

cuda::CudaOptions cuda_options(const SpaceOptions& options, const PolicyTraits& traits) {
  cuda::CudaOptions made;
  made.device_bytes = whole_blocks(options.device_bytes);
  made.host_bytes = traits.uses_host ? options.host_bytes : 0;
  made.block_bytes =
      largest_block_of_run(made.device_bytes, made.host_bytes, !options.storage_path.empty());
  made.pinned_piece_bytes = pinned_piece_of_run(made.host_bytes, made.block_bytes);
  made.waiting_streams = waiting_streams();
  made.link = options.link;
  made.memory_room = [limits = MemoryLimits()] { return limits.room(); };
  return made;
}

}  // namespace

Result<std::unique_ptr<CudaSpace>> CudaSpace::open(const cuda::Driver& driver, int device,
                                                   const SpaceOptions& options,
                                                   std::function<void(const Error&)> on_fatal,
                                                   std::function<void(std::string_view)> warn,
                                                   cuda::OwnLaunches own_launches) {
  if (const Status fine = check_policy(options); !fine) {
    return tl::unexpected<Error>(fine.error());
  }
  const PolicyInfo& info = **find_policy(options.policy);
  std::unique_ptr<CudaSpace> space(new CudaSpace(options));
  if (info.plan != nullptr) {
    auto planner = std::make_unique<DevicePlanner>(info, options.policy_options, options.link);
    space->planner_ = planner.get();
    space->policy_ = std::make_unique<LearnedPlan>(
        info.name, std::move(planner), info.traits.uses_host ? Tier::kHost : Tier::kStorage);
  } else {
    Result<std::unique_ptr<Policy>> policy = info.make(Trace{}, Machine{}, options.policy_options);
    if (!policy) {
      return tl::unexpected<Error>(policy.error());
    }
    space->policy_ = std::move(*policy);
  }
  Result<std::optional<SwapFile>> storage = open_storage(options);
  if (!storage) {
    return tl::unexpected<Error>(storage.error());
  }
  cuda::CudaOptions made = cuda_options(options, info.traits);
  made.device = device;
  int version = 0;
  if (const Status asked =
          cuda::check(driver, "cuDriverGetVersion", driver.driver_version(&version));
      !asked) {
    return tl::unexpected<Error>(asked.error());
  }
  made.launches_ahead = launches_ahead(std::getenv(kQueueScaleVariable), version);
  made.on_fatal = std::move(on_fatal);
  made.warn = std::move(warn);
  made.own_launches = std::move(own_launches);
  Result<std::unique_ptr<cuda::CudaPlatform>> platform =
      cuda::CudaPlatform::create(driver, made, std::move(*storage), *space->policy_);
  if (!platform) {
    return tl::unexpected<Error>(platform.error());
  }
  space->platform_ = std::move(*platform);
  if (space->planner_ != nullptr) {
    space->planner_->serve(*space->platform_);
  }
  return space;
}

CudaSpace::~CudaSpace() {
  if (planner_ != nullptr) {
    planner_->finish();
  }
}

SpaceDefaults gpu_defaults(const MemoryRoom& room, Bytes free_device_bytes) {
  SpaceDefaults defaults{.policy = "lookahead",
                         .device_bytes = whole_blocks(free_device_bytes / 10 * 9),
                         .host_bytes = room.left_bytes / 2,
                         .beside_each_other = std::nullopt,
                         .policy_options = {}};
  defaults.policy_options.prefetch_brake = true;
  return defaults;
}

}  // namespace spillway
