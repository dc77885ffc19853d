// See pressure_program.h.
#include "bench/pressure_program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "bench/pressure_device.h"
#include "machine/machine.h"
#include "platform/common/gpu_sizes.h"
#include "policy/registry.h"
#include "trace/trace.h"

namespace spillway::cuda {
namespace {

using bench::now_ns;

[[noreturn]] void fatal(const std::string& line) {
  std::fprintf(stderr, "pressure_bench: %s\n", line.c_str());
  std::exit(EXIT_FAILURE);
}

}  // namespace

Program::Program(const Driver& driver, const Options& options)
    : driver_(driver), slower_(options.slower), kernel_(make_kernel()) {
  const PolicyInfo& info = **find_policy(options.policy);
  if (info.plan != nullptr) {
    auto planner = std::make_unique<DevicePlanner>(info, PolicyOptions{}, LinkSpeed{});
    planner_ = planner.get();
    auto learned = std::make_unique<LearnedPlan>(info.name, std::move(planner), Tier::kHost);
    learned_ = learned.get();
    policy_ = std::move(learned);
  } else {
    policy_ = *info.make(Trace{}, Machine{}, PolicyOptions{});
  }
  CudaOptions made;
  made.device_bytes = options.budget_bytes / kBlockBytes * kBlockBytes;
  made.host_bytes = 64 * kGiB;
  made.block_bytes = largest_block_of_run(made.device_bytes, made.host_bytes, false);
  made.pinned_piece_bytes = pinned_piece_of_run(made.host_bytes, made.block_bytes);
  made.on_fatal = [](const Error& error) { fatal(error.message); };
  Result<std::unique_ptr<CudaPlatform>> platform =
      CudaPlatform::create(driver, made, std::nullopt, *policy_);
  if (!platform) {
    fatal(platform.error().message);
  }
  platform_ = std::move(*platform);
  if (planner_ != nullptr) {
    planner_->serve(*platform_);
  }
  heap_ = std::make_unique<DeviceHeap>(*platform_);
  (void)driver_.stream_create(&on_, kCuStreamNonBlocking, 0);
}

Program::~Program() {
  synchronize();
  if (planner_ != nullptr) {
    planner_->finish();
  }
  heap_.reset();
  platform_.reset();
}

Program::Tensor::~Tensor() { in->heap_->free(address, in->on_); }

Program::Held Program::make(Bytes bytes) {
  const Result<std::uint64_t> address = heap_->allocate(bytes, on_);
  if (!address) {
    fatal(address.error().message);
  }
  return std::make_shared<Tensor>(this, *address, bytes);
}

void Program::launch(const Work& work) {
  std::vector<CudaOperand> operands;
  std::vector<LaunchOperand> identity;
  std::array<std::uint64_t, kKernelWords> words{};
  std::array<void*, kKernelWords> pointers{};
  words[0] = static_cast<std::uint64_t>(slower_ * work.took_ns);
  for (const Use& use : work.uses) {
    const Tensor& it = *use.tensor;
    operands.push_back({.address = it.address, .bytes = it.bytes, .mode = use.mode});
    identity.push_back({.allocation = it.address, .bytes = it.bytes});
    if (operands.size() < kKernelWords) {
      words.at(operands.size()) = it.address;  // what is left over is not checked
    }
  }
  for (std::size_t i = 0; i < kKernelWords; ++i) {
    pointers[i] = &words[i];
  }
  const auto launched = [&] {
    return driver_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, on_, pointers.data(), nullptr);
  };
  CuResult made = CuResult::kSuccess;
  if (platform_->bypass().begin_bypassed(on_)) {
    made = launched();
    platform_->bypass().end_bypassed();
  } else {
    const std::uint64_t number =
        platform_->launches().before_launch({.stream = on_,
                                             .hash = hash_launch(work.name, identity),
                                             .name = work.name,
                                             .operands = operands,
                                             .needs_mapping = work.needs_mapping});
    made = launched();
    platform_->launches().after_launch(number, made == CuResult::kSuccess);
  }
  if (made != CuResult::kSuccess) {
    fatal("a launch was refused");
  }
  wait_for_pace();
}

void Program::synchronize() const {
  platform_->streams().before_wait(on_);
  (void)driver_.stream_synchronize(on_);
  platform_->streams().after_wait(on_);
}

void Program::keep_pace(TimeNs each_ns) {
  each_ns_ = each_ns;
  issuing_since_ns_ = now_ns();
  issued_ = 0;
}

void Program::wait_for_pace() {
  constexpr int kTogether = 16;
  if (++issued_ % kTogether == 0) {
    const TimeNs left_ns = issuing_since_ns_ + each_ns_ * slower_ * issued_ - now_ns();
    if (left_ns > 0) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
    }
  }
}

}  // namespace spillway::cuda
