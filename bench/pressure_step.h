// What a program of pressure_bench does in one step. Layer: benchmarks.
#pragma once

#include <memory>

#include "base/units.h"
#include "bench/pressure_program.h"
#include "trace/perturb.h"
#include "trace/trace.h"

namespace spillway::cuda {

class PressureStep {
 public:
  PressureStep() = default;
  PressureStep(const PressureStep&) = delete;
  PressureStep& operator=(const PressureStep&) = delete;
  virtual ~PressureStep() = default;
  // Issues one, and returns when the device has done it.
  virtual void run() = 0;
};

// Made up: GPT-2 XL with so many layers as PyTorch issues it (bf16 autocast, 6 x 1024, fused AdamW,
// attention in one kernel). `reads_known`: as if what is only read were known; otherwise all is
// taken to be written. The program must outlive it.
[[nodiscard]] std::unique_ptr<PressureStep> made_up_step(Program& program, int layers,
                                                         bool reads_known);
// What is alive at its highest.
[[nodiscard]] Bytes made_up_peak_bytes(int layers);

// The iterations of recorded networks, one a step (docs/traces.md): their launches with their
// operands, how they use them and how long they took, in their order on one stream. Everything is
// allocated before the first launch that uses it; what is not persistent is freed behind the last
// of the iteration. Copies, values and memsets need their operands' memory when they are issued, as
// the driver has it, unless `fills_as_kernels`: then memsets do not. The program must outlive it.
[[nodiscard]] std::unique_ptr<PressureStep> recorded_step(Program& program, spillway::Program steps,
                                                          bool fills_as_kernels);
// What is alive at its highest, each allocation as large as the heap makes it.
[[nodiscard]] Bytes recorded_peak_bytes(const Trace& trace);

}  // namespace spillway::cuda
