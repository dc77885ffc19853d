// One training iteration of a GPT on the near-memory paper's platform (sections 5 and 6.3, figures
// 4 and 5): parameters are fetched for each operation, gradients are sent back as they are made,
// and the update runs in the memory or on the CPU; what does not fit lies on NVMe. Layer: platform,
// simulator. Events over resources: the GPU, the memory's link, PCIe, NVMe, each channel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/sim/near_memory/gpt.h"
#include "platform/sim/near_memory/residency.h"

namespace spillway::sim::near_memory {

enum class Updater : std::uint8_t {
  kCpu,     // a core, over the memory's own link, which it shares with the transfers
  kKernel,  // in the memory: the link stays free, its channel does not
};

// In which order the backward pass moves tensors between memory and GPU.
enum class Streams : std::uint8_t {
  kOne,  // paper section 5.2: one CUDA stream for all transfers, in the order of the program: the
         // gradients of an operation, then the parameters of the next
  kTwo,  // one for each direction: parameters are fetched ahead of the gradients
};

struct Platform {
  Updater updater = Updater::kKernel;
  // Of one channel's kernel, or of the CPU: parameters a second while nobody else uses the memory.
  double updates_per_s = 0;
  std::uint32_t channels = 2;
  Bytes channel_bytes = 8 * kGiB;
  Placement placement = Placement::kRoundRobin;
  Streams streams = Streams::kOne;
  // Whether the runtime lets transfers use a channel while its tensors are updated.
  bool exclusive = true;

  double gpu_flop_per_s = 0;
  Bytes gpu_bytes = 32 * kGiB;
  double memory_bytes_per_s = 0;        // of the memory's link, both directions together
  double gpu_link_bytes_per_s = 0;      // each direction
  double storage_read_bytes_per_s = 0;  // into the memory
  double storage_write_bytes_per_s = 0;
  double storage_to_gpu_bytes_per_s = 0;  // past the memory
  std::uint32_t storage_requests = 1;     // at once
};

enum class Lane : std::uint8_t { kGpu, kFetch, kSend, kGather, kEvict, kUpdate };
inline constexpr std::size_t kLanes = 6;

struct Span {
  Lane lane;
  std::uint32_t layer;
  std::optional<std::uint32_t> channel;  // that it uses, if any
  TimeNs begin_ns;
  TimeNs end_ns;
};

struct Iteration {
  TimeNs begin_ns = 0;
  TimeNs forward_ns = 0;   // how long
  TimeNs backward_ns = 0;  // with all updates
  Bytes storage_peak_bytes = 0;
  Bytes storage_read_bytes = 0;
  Bytes storage_written_bytes = 0;
  std::vector<Span> spans;  // by their ends

  [[nodiscard]] TimeNs total_ns() const { return forward_ns + backward_ns; }
};

// So many iterations of which the last, in the steady state, is returned. kCannotRun where a tensor
// with its states does not fit into a channel; kDefect where nothing goes on.
[[nodiscard]] Result<Iteration> simulate_training(const Gpt& gpt, const Platform& platform,
                                                  std::uint32_t iterations = 3);

}  // namespace spillway::sim::near_memory
