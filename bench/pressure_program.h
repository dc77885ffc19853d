// A program of pressure_bench: tensors and launches as an interposer would tell the CUDA platform
// of them, on one stream of the fake driver. Which ones, a step says (pressure_step.h). Layer:
// benchmarks. One thread's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"
#include "heap/device_heap.h"
#include "platform/cuda/cuda_platform.h"
#include "policy/planning/learned_plan.h"
#include "runtime/cuda/device_planner.h"

namespace spillway::cuda {

class Program {
 public:
  struct Options {
    std::string policy;  // registered
    Bytes budget_bytes = 0;
    int slower = 1;
  };
  // The driver is the fake one, initialized and with a context. What fails ends the process.
  Program(const Driver& driver, const Options& options);
  // No tensor of its may be left.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Freed, in the stream's order, with the last of its owners.
  struct Tensor {
    Program* in = nullptr;
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Tensor(Program* owner, std::uint64_t at, Bytes size) : in(owner), address(at), bytes(size) {}
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor();
  };
  using Held = std::shared_ptr<Tensor>;
  [[nodiscard]] Held make(Bytes bytes);

  struct Use {
    const Tensor* tensor = nullptr;
    AccessMode mode = AccessMode::kReadWrite;  // as far as anybody tells the platform
  };
  struct Work {
    std::string_view name;
    std::span<const Use> uses;
    TimeNs took_ns = 0;          // on an H200
    bool needs_mapping = false;  // as a copy or memset (cuda_launch.h)
  };
  void launch(const Work& work);
  void synchronize() const;
  // From here on a launch is issued every so many ns, as on a machine with an H200, at the most:
  // what PyTorch takes of the processor for it.
  void keep_pace(TimeNs each_ns);

  [[nodiscard]] const CudaPlatform& platform() const { return *platform_; }
  // Between two steps; 0 for policies without plans, and before there is one.
  [[nodiscard]] std::size_t plan_launches() const {
    return learned_ == nullptr ? 0 : learned_->plan_launches();
  }
  [[nodiscard]] std::uint64_t plans() const { return learned_ == nullptr ? 0 : learned_->plans(); }
  [[nodiscard]] Bytes high_bytes() const { return heap_->usage().used_high_bytes; }

 private:
  void wait_for_pace();

  Driver driver_;
  int slower_;
  CuFunction kernel_;
  std::unique_ptr<Policy> policy_;
  DevicePlanner* planner_ = nullptr;  // the policy's, where it plans
  LearnedPlan* learned_ = nullptr;    // the policy, likewise
  std::unique_ptr<CudaPlatform> platform_;
  std::unique_ptr<DeviceHeap> heap_;
  CuStream on_ = nullptr;
  TimeNs each_ns_ = 0;
  TimeNs issuing_since_ns_ = 0;
  int issued_ = 0;
};

}  // namespace spillway::cuda
