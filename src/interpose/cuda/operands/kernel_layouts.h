// What the driver tells of a kernel, asked once: where its parameters lie, and its name. Layer:
// interpose, cuda. Thread-safe; a look-up takes no lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interpose/cuda/call_types.h"
#include "interpose/cuda/operands/address_use.h"
#include "interpose/cuda/operands/read_only_parameters.h"
#include "policy/prediction/launch_hash.h"

namespace spillway::cuda {

struct KernelLayout {
  struct Parameter {
    std::size_t offset = 0;  // in the parameter block
    std::size_t bytes = 0;
  };
  const void* function = nullptr;
  std::uint64_t generation = 0;
  AddressUse addresses;  // beside what each look-up compares
  bool known = false;    // the driver has told
  std::vector<Parameter> parameters;
  std::optional<ReadOnlyParameters> reads;
  std::string roles;    // registered_kernels.h
  std::string name;     // for people
  bool sparse = false;  // sparse_kernels.h
  LaunchHash hash;      // of the name that the compiler has given it
};

// A function or a kernel of a library: programs launch either. Valid until the process ends.
[[nodiscard]] const KernelLayout& kernel_layout(CuFunction function);
// Of those that were asked about and that may follow addresses that others have stored, the first
// few, for people.
[[nodiscard]] std::string names_that_reach();
// The program has unloaded code: others may come to lie where it was.
void forget_kernel_layouts();

}  // namespace spillway::cuda
