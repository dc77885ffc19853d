// The Adam kernel beside one channel of the device (paper sections 3.3 and 3.4, figure 3): 16
// units, a FIFO queue for each of four inputs and three outputs, blocks, double buffering. Layer:
// platform, simulator. Burst by burst over a DramChannel; throughput is what comes out.
#pragma once

#include <cstdint>

#include "platform/sim/near_memory/dram_channel.h"

namespace spillway::sim::near_memory {

// What the kernel waits for before it asks for its next block. AXI does not order reads and writes
// among each other, so a kernel that does not want them mixed, at a turn of the bus for each, has
// to wait at least where one follows the other (chosen).
enum class PortOrder : std::uint8_t {
  kNothing,     // loads and stores come in its order for free
  kDirections,  // the last answer, where it turns from loading to storing or back
  kBlocks,      // the last answer of each block
};

// Units take 64 bytes a cycle from each input: 16 parameters, one for each unit (paper
// section 3.3).
struct KernelDesign {
  Bytes block_bytes = 16 * kKiB;       // paper section 3.4
  std::uint32_t blocks_queued = 2;     // paper: double buffering; 1 waits for each block's results
  double clock_ns = 5;                 // paper section 3.1: 200 MHz
  std::uint32_t latency_cycles = 128;  // paper section 3.3: of a unit, fully pipelined
  // Bursts that the controller knows ahead, for which it may open rows. Chosen: 8, two for each of
  // the four bank-group machines that the memory controller of the FPGA family has.
  std::uint32_t bursts_ahead = 8;
  // From the kernel to the DRAM's pins through AXI and controller, and back. Chosen: 10 cycles each
  // way, 100 ns in all.
  std::uint32_t port_cycles = 10;
  PortOrder order = PortOrder::kDirections;
  // The FPGA family's controller reads twice in a row whenever it has not read for so long: its
  // timing follows the reads' strobes (product guide of the memory controller, "periodic reads").
  double read_every_ns = 1000;

  static constexpr std::uint32_t kInputs = 4;   // parameter, gradient, both moments
  static constexpr std::uint32_t kOutputs = 3;  // parameter, both moments
};

struct KernelRun {
  std::uint64_t parameters = 0;
  double seconds = 0;
  DramCounts counts;
  std::uint64_t reads_for_timing = 0;    // of counts.reads, those that the kernel did not ask for
  std::uint32_t most_blocks_queued = 0;  // loaded and not yet stored, at once

  [[nodiscard]] double parameters_per_s() const {
    return static_cast<double>(parameters) / seconds;
  }
};

// Runs the kernel over `blocks` blocks of fp32 parameters. The four arrays begin at multiples of
// the block that the seed chooses.
[[nodiscard]] KernelRun run_kernel(const DramTiming& timing, const KernelDesign& design,
                                   std::uint32_t blocks, std::uint64_t seed);

}  // namespace spillway::sim::near_memory
