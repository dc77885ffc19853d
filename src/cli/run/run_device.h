// On what `spillway run` runs a program: this machine's memory, or an NVIDIA GPU's. Layer: cli.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/units.h"

namespace spillway {

// The devices that a program would see, and the first of them.
struct GpuFacts {
  int count = 0;
  std::string name;
  Bytes memory_bytes = 0;
  double link_bytes_per_s = 0;  // what PCIe can carry each way; 0: not known
};

struct RunDevice {
  std::optional<GpuFacts> gpu;  // none: this machine's own memory
  // With `auto`, where this machine seems to have a GPU and it cannot be used: one line that says
  // so, and the driver's reason alone.
  std::string why_gpu_is_not_used;
  std::string reason;
};

// `device`: "cuda", "host", or "auto": a GPU if there is one. Opens the driver once, except for
// "host". Fails with kUnsupported if a GPU is wanted and there is none.
[[nodiscard]] Result<RunDevice> find_device(const std::string& device);

}  // namespace spillway
