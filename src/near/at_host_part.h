// A part of a tensor that is updated in host memory, and the functions of the space that it lies
// in. Layer: near.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "near/at_host.h"
#include "near/blocks.h"
#include "near/near.h"

namespace spillway::near {

// Of a part: 16 MiB of each operand of 4 bytes, so that a transfer is worth its latency and two
// parts are little of host memory.
inline constexpr std::uint64_t kPartElements = std::uint64_t{1} << 22U;

// What the preloaded library offers.
struct AtHost {
  decltype(&spillway_at_host_begin) begin = nullptr;
  decltype(&spillway_at_host_extents) extents = nullptr;
  decltype(&spillway_at_host_end) end = nullptr;
  // Of a GPU's space only.
  decltype(&spillway_at_host_takes) takes = nullptr;
  decltype(&spillway_at_host_next) next = nullptr;
  decltype(&spillway_at_host_send) send = nullptr;
};
// nullptr: the program does not run under `spillway run`.
[[nodiscard]] const AtHost* at_host();
// nullptr: not with a GPU.
[[nodiscard]] const AtHost* at_host_of_gpu();

class Part {
 public:
  // `element_bytes`: of parameters and states, and of gradients.
  Part(const Range& range, std::uint64_t element_bytes, std::uint64_t gradient_bytes);

  // nullopt where results lie elsewhere, or blocks end where an update may not be cut.
  [[nodiscard]] std::optional<std::vector<spillway_at_host_operand>> operands() const;
  // Its operands come to host memory.
  void begun(std::uint64_t update) { update_ = update; }
  // As ranges each of which lies together in host memory, with addresses as if all of the tensor
  // did. nullopt where they cannot come, or that cuts it at another place than an update may be
  // cut.
  [[nodiscard]] std::optional<std::vector<Range>> ranges(const AtHost& at_host) const;
  void end(const AtHost& at_host) const { at_host.end(update_); }
  [[nodiscard]] const Range& range() const { return range_; }

 private:
  // In and out.
  struct Used {
    const void* spillway_near_tensor::*in;
    void* spillway_near_tensor::*out;
    std::uint64_t element_bytes = 0;
    [[nodiscard]] const void* start(const spillway_near_tensor& tensor) const {
      return tensor.*in != nullptr ? tensor.*in : tensor.*out;
    }
  };
  [[nodiscard]] Range moved(std::uint64_t begin, std::uint64_t end,
                            const std::vector<std::vector<spillway_at_host_extent>>& extents) const;

  Range range_;
  std::vector<Used> used_;
  std::uint64_t update_ = 0;
};

}  // namespace spillway::near
