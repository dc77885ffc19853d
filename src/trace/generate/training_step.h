// A training step under construction: kernels are emitted as layers are called, and each layer
// leaves behind what its backward pass will emit. Layer: trace, internal to the generators.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "trace/generate.h"
#include "trace/trace.h"

namespace spillway {

// A product that stays at 2^62 instead of overflowing: far beyond what a trace may hold.
[[nodiscard]] std::uint64_t product(std::initializer_list<std::uint64_t> factors);

class TrainingStep {
 public:
  TrainingStep(std::string model, std::uint64_t batch_size, const TrainingOptions& options);

  // Tensors; sizes in elements of the training type unless the name says bytes.
  TensorId input(Bytes bytes);                    // batch data: no gradient
  TensorId parameter(std::uint64_t elements);     // persistent, updated by the optimizer
  TensorId buffer(std::uint64_t elements);        // persistent, no gradient (running statistics)
  TensorId activation(std::uint64_t elements);    // intermediate, with a gradient
  TensorId activation_like(TensorId other);       // the same, of the size of another
  TensorId intermediate(std::uint64_t elements);  // kept for backward, no gradient
  TensorId intermediate_bytes(Bytes bytes);       // the same, in bytes
  TensorId workspace(Bytes bytes);                // scratch of the one kernel that writes it

  // Appends a kernel that does `flops` operations and touches each operand once.
  void emit(std::string name, std::vector<TensorId> reads, std::vector<TensorId> writes,
            double flops);
  // What the layer emits when backward comes to it; layers run in reverse order of this call.
  void on_backward(std::function<void(TrainingStep&)> layer) {
    backward_.push_back(std::move(layer));
  }

  // Gradients, during backward. An input needs none. new_gradient makes a tensor of the size of
  // `of` that a kernel then writes; add_gradient declares it complete, summing it with what another
  // path contributed before.
  [[nodiscard]] bool needs_gradient(TensorId of) const { return info_[of].needs_gradient; }
  [[nodiscard]] TensorId gradient(TensorId of) const { return info_[of].gradient; }
  TensorId new_gradient(TensorId of);
  void add_gradient(TensorId of, TensorId contribution);

  [[nodiscard]] double elements(TensorId of) const;

  // Emits backward and the update and gives the trace away.
  [[nodiscard]] Trace finish();

 private:
  struct Info {
    bool needs_gradient = false;
    TensorId gradient = 0;
    bool has_gradient = false;
  };

  TensorId add(Bytes bytes, bool persistent, bool needs_gradient);
  [[nodiscard]] Bytes in_bytes(std::uint64_t elements) const;
  void emit_update(TensorId parameter);

  Trace trace_;
  TrainingOptions options_;
  std::vector<Info> info_;  // by tensor id
  std::vector<TensorId> parameters_;
  std::vector<std::function<void(TrainingStep&)>> backward_;
};

}  // namespace spillway
