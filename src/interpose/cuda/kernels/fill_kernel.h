// A memset as a launch of a kernel of ours. The driver refuses a memset on addresses that have no
// memory when it is issued, so the program's thread would have to wait until they have; a kernel
// may be issued behind a stream wait (docs/gpu.md section 5). Layer: interpose, cuda. Thread-safe.
#pragma once

#include <optional>

#include "interpose/cuda/call_types.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// Bytes in one piece. The byte at an address is that of `pattern` at the address's last two bits.
struct Fill {
  CuAddress to = 0;
  std::size_t bytes = 0;
  std::uint32_t pattern = 0;
};

// `value` again and again; nullopt where the address is not aligned to it, which the driver
// refuses.
template <typename Value>
std::optional<Fill> fill_of(CuAddress to, Value value, std::size_t count) {
  static_assert(sizeof(Value) <= sizeof(std::uint32_t));
  if (to % sizeof(Value) != 0) {
    return std::nullopt;
  }
  std::uint32_t pattern = 0;
  for (std::size_t at = 0; at < sizeof pattern; at += sizeof(Value)) {
    pattern |= std::uint32_t{value} << (8 * at);
  }
  return Fill{.to = to, .bytes = count * sizeof(Value), .pattern = pattern};
}

// Whether the kernel is there (own_kernels.h), for the calling thread's context. Where it is not,
// memsets remain memsets.
[[nodiscard]] bool has_fill_kernel();
// Put on a stream of that context.
[[nodiscard]] CuResult launch_fill(const Fill& fill, CuStream stream);

// The kernel's source.
extern const char kFillPtx[];

}  // namespace spillway::cuda
