// AutoVM's experiments in simulation: its networks in TensorFlow's memory, under unified memory
// alone and under AutoVM. Layer: runtime.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "machine/machine.h"
#include "policy/autovm.h"
#include "trace/generate.h"

namespace spillway::reproduce {

// What is simulated. The defaults are the model; docs/results.md has the grounds.
struct AutoVmSetup {
  // What memory is said to be needed in parts of (section 6.2.3). Not what is on the device where
  // that is varied.
  double whole_bytes = 9.5e9;
  Machine paging;   // unified memory alone: the link as it is while faults are handled
  Machine managed;  // under AutoVM
  AutoVmOptions policy;
  // Kernels' times by rate alone, not scaled to the computing time that the thesis states.
  bool rates_alone = false;
};
// Built-in machine rtx2080ti. Fails only if that cannot be read.
[[nodiscard]] Result<AutoVmSetup> autovm_setup();

inline constexpr std::array kAutoVmNetworks{ImageNetwork::kAlexNet, ImageNetwork::kVgg19,
                                            ImageNetwork::kResNet152};
[[nodiscard]] std::string_view name_of(ImageNetwork network);

// One training step with Adam.
[[nodiscard]] Trace autovm_trace(const AutoVmSetup& setup, ImageNetwork network,
                                 std::uint64_t batch_size);
// The smallest batch that needs so much memory at once, in parts of setup.whole_bytes.
[[nodiscard]] std::uint64_t batch_that_needs(const AutoVmSetup& setup, ImageNetwork network,
                                             double part);

// The third iteration of each; everything fits: both are its computing time.
struct AutoVmTimes {
  std::uint64_t batch_size = 0;
  TimeNs compute_ns = 0;
  TimeNs paging_ns = 0;
  TimeNs autovm_ns = 0;
  bool fits = false;  // without virtual memory

  // In percent: 0 is as fast as unified memory alone.
  [[nodiscard]] double speedup_percent() const {
    return 100 * (static_cast<double>(paging_ns) / static_cast<double>(autovm_ns) - 1);
  }
};
[[nodiscard]] Result<AutoVmTimes> autovm_times(const AutoVmSetup& setup, ImageNetwork network,
                                               std::uint64_t batch_size);

// Section 4.2.4: kernel K2 reads one buffer of 4 GiB and writes another for the first time, while a
// third lies on the device. From the end of the kernel before it to its own.
enum class FirstTouch : std::uint8_t { kFault, kPreAccess, kOffloadAndPreAccess };
[[nodiscard]] Result<TimeNs> first_touch_ns(const AutoVmSetup& setup, FirstTouch how,
                                            Bytes buffer_bytes);

}  // namespace spillway::reproduce
