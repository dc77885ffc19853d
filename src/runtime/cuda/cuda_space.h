// A space on a GPU, from options that people write: budgets, a place to swap to, a policy by name.
// Layer: runtime.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "engine/policy.h"
#include "platform/cuda/cuda_platform.h"
#include "runtime/cuda/device_planner.h"
#include "runtime/run/space_options.h"

namespace spillway {

class CudaSpace {
 public:
  // The device is the ordinal of the calling thread's context; the driver has been initialized.
  // `on_fatal` is told what ends the run, `warn` what people should know (CudaOptions). Fails with
  // kInvalidInput or kUnsupported.
  static Result<std::unique_ptr<CudaSpace>> open(const cuda::Driver& driver, int device,
                                                 const SpaceOptions& options,
                                                 std::function<void(const Error&)> on_fatal,
                                                 std::function<void(std::string_view)> warn = {},
                                                 cuda::OwnLaunches own_launches = {});

  ~CudaSpace();
  CudaSpace(const CudaSpace&) = delete;
  CudaSpace& operator=(const CudaSpace&) = delete;

  [[nodiscard]] cuda::CudaPlatform& platform() { return *platform_; }
  [[nodiscard]] const SpaceOptions& options() const { return options_; }

 private:
  explicit CudaSpace(SpaceOptions options) : options_(std::move(options)) {}

  SpaceOptions options_;
  std::unique_ptr<Policy> policy_;    // outlives the platform
  DevicePlanner* planner_ = nullptr;  // policy_'s, where it plans
  std::unique_ptr<cuda::CudaPlatform> platform_;
};

// For space_options_from_environment on a GPU, which has memory of its own: nine tenths of
// `free_device_bytes`, half of what this machine has left, and the policy lookahead, which measures
// best there. How far ahead a policy prefetches is its own affair, and nothing faults.
[[nodiscard]] SpaceDefaults gpu_defaults(const MemoryRoom& room, Bytes free_device_bytes);

}  // namespace spillway
