// `spillway record --without-gpu`: a training step of PyTorch as it would run on a machine's GPU,
// here. Layer: cli. docs/traces.md, python/spillway/without_gpu.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "machine/machine.h"
#include "trace/trace.h"

namespace spillway {

struct WithoutGpu {
  std::vector<std::string> command;  // of a Python that has PyTorch
  Machine machine;                   // whose GPU is stood in for
  std::vector<Machine> others{};     // whose times of the same kernels are wanted as well
  unsigned warm_up = 2;
  // Standard output is not the program's: what it prints goes to standard error, and lines there
  // say which step has ended.
  bool keeps_output = false;
};

// What the program has left, or its own exit status if it ended without having recorded anything
// and said why.
struct WithoutGpuEnd {
  Trace trace;
  std::vector<Trace> others;  // the same but for the times
  int status = 0;
};

// kInvalidInput if a machine does not say how fast its GPU is, or the command keeps Spillway out.
[[nodiscard]] Status check_without_gpu(const WithoutGpu& what);

// Runs the program in a child until its step is recorded, which ends it. Fails with kInvalidInput
// if a machine does not say how fast its GPU is, kCannotRun if the program ended without a word
// of Spillway's, kIo.
[[nodiscard]] Result<WithoutGpuEnd> record_without_gpu(const WithoutGpu& what);

}  // namespace spillway
