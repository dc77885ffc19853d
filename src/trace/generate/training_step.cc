// Tensors, kernel times, gradients and updates of a generated step. Layer: trace.
#include "trace/generate/training_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trace/limits.h"

namespace spillway {

std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  constexpr std::uint64_t kMost = 1ULL << 62U;
  if (std::find(factors.begin(), factors.end(), 0U) != factors.end()) {
    return 0;
  }
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors) {
    if (factor > kMost / result) {
      return kMost;
    }
    result *= factor;
  }
  return result;
}

TrainingStep::TrainingStep(std::string model, std::uint64_t batch_size,
                           const TrainingOptions& options)
    : options_(options) {
  trace_.model = std::move(model);
  trace_.batch_size = batch_size;
  trace_.device = options.device.name;
  trace_.dtype = options.element_bytes == 2 ? "float16" : "float32";
}

TensorId TrainingStep::add(Bytes bytes, bool persistent, bool needs_gradient) {
  Tensor tensor;
  tensor.bytes = bytes;
  tensor.persistent = persistent;
  trace_.tensors.push_back(tensor);
  info_.push_back({.needs_gradient = needs_gradient, .gradient = 0, .has_gradient = false});
  return static_cast<TensorId>(trace_.tensors.size() - 1);
}

Bytes TrainingStep::in_bytes(std::uint64_t elements) const {
  return product({elements, options_.element_bytes});
}

TensorId TrainingStep::input(Bytes bytes) { return add(bytes, false, false); }

TensorId TrainingStep::parameter(std::uint64_t elements) {
  const TensorId id = add(in_bytes(elements), true, true);
  parameters_.push_back(id);
  return id;
}

TensorId TrainingStep::buffer(std::uint64_t elements) {
  return add(in_bytes(elements), true, false);
}

TensorId TrainingStep::activation(std::uint64_t elements) {
  return add(in_bytes(elements), false, true);
}

TensorId TrainingStep::activation_like(TensorId other) {
  return add(trace_.tensors[other].bytes, false, true);
}

TensorId TrainingStep::intermediate(std::uint64_t elements) {
  return add(in_bytes(elements), false, false);
}

TensorId TrainingStep::intermediate_bytes(Bytes bytes) { return add(bytes, false, false); }

TensorId TrainingStep::workspace(Bytes bytes) {
  const TensorId id = add(bytes, false, false);
  trace_.tensors[id].scratch = true;
  return id;
}

double TrainingStep::elements(TensorId of) const {
  return static_cast<double>(trace_.tensors[of].bytes) /
         static_cast<double>(options_.element_bytes);
}

void TrainingStep::emit(std::string name, std::vector<TensorId> reads, std::vector<TensorId> writes,
                        double flops) {
  double bytes = 0;
  for (const auto* list : {&reads, &writes}) {
    for (const TensorId id : *list) {
      bytes += static_cast<double>(trace_.tensors[id].bytes);
    }
  }
  const DeviceRates& device = options_.device;
  const double busy_ns = std::max(flops / device.flops_per_s, bytes / device.bytes_per_s) *
                         static_cast<double>(kNsPerS);
  Kernel kernel;
  kernel.name = std::move(name);
  // One beyond the limit still fails validation, and converts.
  kernel.duration_ns =
      device.launch_ns +
      static_cast<TimeNs>(std::min(std::round(busy_ns), static_cast<double>(kMaxDurationNs) * 2));
  kernel.reads = std::move(reads);
  kernel.writes = std::move(writes);
  trace_.kernels.push_back(std::move(kernel));
}

TensorId TrainingStep::new_gradient(TensorId of) {
  return add(trace_.tensors[of].bytes, false, false);
}

void TrainingStep::add_gradient(TensorId of, TensorId contribution) {
  Info& info = info_[of];
  if (!info.has_gradient) {
    info.has_gradient = true;
    info.gradient = contribution;
    return;
  }
  // Into a new tensor: a residual's gradient is shared by both of its branches.
  const TensorId first = info.gradient;
  const TensorId sum = new_gradient(of);  // moves info_
  emit("gradient.add", {first, contribution}, {sum}, elements(of));
  info_[of].gradient = sum;
}

void TrainingStep::emit_update(TensorId parameter) {
  std::vector<TensorId> states;
  if (options_.optimizer != Optimizer::kSgd) {
    states.push_back(add(trace_.tensors[parameter].bytes, true, false));
  }
  if (options_.optimizer == Optimizer::kAdam) {
    states.push_back(add(trace_.tensors[parameter].bytes, true, false));
  }
  std::vector<TensorId> reads{parameter, gradient(parameter)};
  reads.insert(reads.end(), states.begin(), states.end());
  std::vector<TensorId> writes{parameter};
  writes.insert(writes.end(), states.begin(), states.end());
  const double flops_per_element = options_.optimizer == Optimizer::kAdam ? 12 : 4;
  emit("optimizer.update", std::move(reads), std::move(writes),
       flops_per_element * elements(parameter));
}

Trace TrainingStep::finish() {
  while (!backward_.empty()) {
    const std::function<void(TrainingStep&)> layer = std::move(backward_.back());
    backward_.pop_back();
    layer(*this);
  }
  for (const TensorId id : parameters_) {
    emit_update(id);
  }
  trace_.kernels.back().synchronizes = options_.synchronizes;
  return std::move(trace_);
}

}  // namespace spillway
