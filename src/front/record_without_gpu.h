// `spillway record --without-gpu`: a training step of PyTorch as it would run on a machine's GPU,
// here. Layer: front. docs/traces.md, python/spillway/without_gpu.
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
  unsigned warm_up = 2;
};

// What the program has left, or its own exit status if it ended without having recorded anything
// and said why.
struct WithoutGpuEnd {
  Trace trace;
  int status = 0;
};

// Runs the program in a child until its step is recorded, which ends it. Fails with kInvalidInput
// if the machine does not say how fast its GPU is, kCannotRun if the program ended without a word
// of Spillway's, kIo.
[[nodiscard]] Result<WithoutGpuEnd> record_without_gpu(const WithoutGpu& what);

}  // namespace spillway
