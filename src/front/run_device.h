// On what `spillway run` runs a program: this machine's memory, or an NVIDIA GPU's. Layer: front.
#pragma once

#include <string>

#include "base/error.h"
#include "base/units.h"
#include "front/run_environment.h"

namespace spillway {

// The devices that a program would see, and the first of them.
struct GpuFacts {
  int count = 0;
  std::string name;
  Bytes memory_bytes = 0;
};
// Fails with kUnsupported where there is none.
[[nodiscard]] Result<GpuFacts> first_gpu();

// "cuda", "host", or "auto": a GPU if there is one. Fails with kInvalidInput for other names, and
// with kUnsupported if a GPU is wanted and there is none.
[[nodiscard]] Result<bool> runs_on_gpu(const std::string& device);

// Why there is no GPU to run on, where this machine seems to have one; empty where it has none.
[[nodiscard]] std::string why_gpu_is_not_used();

// What the program finds in its environment on a GPU, besides the settings. The settings have been
// put into this process's environment, and are checked.
[[nodiscard]] Result<Environment> gpu_environment(const std::string& library);

}  // namespace spillway
