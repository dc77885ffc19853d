// Numbers and their grounds. See platforms.h.
#include "platform/sim/near_memory/platforms.h"

namespace spillway::sim::near_memory {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// fp32, as the optimizer's states: with 2-byte products the smallest model of table 4 would need
// 15 GB and its activations 12, which a V100 holds, and the paper says that none fits. Data sheet:
// 14 TFLOPS (PCIe); chosen: 80 % of them, which large products of cuBLAS reach.
constexpr double kV100FlopPerS = 0.8 * 14 * kTera;
// PCIe 3.0 x16: as other machines of this project (AutoVM measured it). Never the bound here.
constexpr double kPcie3BytesPerS = 12 * kGiga;
// One drive, one request at a time. The drives are made for PCIe 4 and write 3.75 GB/s when hot (a
// published test); on this CPU's PCIe 3.0 x4 a drive was measured with 3.2 GB/s (a published
// report).
constexpr double kNvmeBytesPerS = 3.2 * kGiga;
// FITTED, to the forward passes of table 6, the one number that is: reads of NVMe into the GPU. The
// CPU forwards them at 3.2 GB/s for others; PyTorch's buffers, which the storage library has not
// registered, are one reason why it may be less here.
constexpr double kNvmeToGpuBytesPerS = 1.9 * kGiga;

// Today's GPUs: 989 TFLOPS with 2-byte products (data sheet, H200 and GH200); chosen: 40 % of them.
constexpr double kHopperFlopPerS = 0.4 * 989 * kTera;

// A server of today keeps as many lines on their way as its memory can take.
HostCore many_cores() {
  HostCore cores;
  cores.results = Results::kInPlace;
  cores.lines_in_flight = 64;
  cores.writes_queued = 64;
  cores.writes_left = 32;
  return cores;
}

// Beside each of a module's two ranks there is a kernel, as in the AXDIMM, and a tensor lies in the
// first or in the second rank of all modules: two channels for the arbiter, as wide as the memory.
constexpr std::uint32_t kRanks = 2;

// A kernel as wide as a DDR5 channel: 64 bytes in the time of a burst, in a chip of its own,
// without the FPGA's reads for timing.
KernelDesign ddr5_kernel(const DramTiming& timing) {
  KernelDesign design;
  design.clock_ns = static_cast<double>(timing.burst) * timing.clock_ns;
  design.read_every_ns = 1e9;
  return design;
}

Platform in_memory(Updater updater) {
  Platform platform;
  platform.updater = updater;
  platform.channels = kRanks;
  platform.channel_bytes = 512 * kGiB;
  platform.placement = Placement::kBySize;
  platform.streams = Streams::kTwo;
  platform.exclusive = updater == Updater::kKernel;
  platform.storage_read_bytes_per_s = kNvmeBytesPerS;
  platform.storage_write_bytes_per_s = kNvmeBytesPerS;
  platform.storage_to_gpu_bytes_per_s = kNvmeBytesPerS;
  return platform;
}

struct Rates {
  double memory_bytes_per_s;
  double gpu_bytes_per_s;
  double cpu_updates_per_s;
  double kernel_updates_per_s;  // of all modules' kernels beside one rank
};

TodaysParts parts(const std::string& name, const Rates& rates) {
  TodaysParts parts{name, in_memory(Updater::kCpu), in_memory(Updater::kKernel)};
  for (Platform* platform : {&parts.cpu, &parts.near}) {
    platform->gpu_flop_per_s = kHopperFlopPerS;
    platform->gpu_bytes = 139 * kGiB;
    platform->memory_bytes_per_s = rates.memory_bytes_per_s;
    platform->gpu_link_bytes_per_s = rates.gpu_bytes_per_s;
  }
  parts.cpu.updates_per_s = rates.cpu_updates_per_s;
  parts.near.updates_per_s = rates.kernel_updates_per_s;
  return parts;
}

}  // namespace

double mean_kernel_rate(const DramTiming& timing, const KernelDesign& design, int seeds) {
  constexpr Bytes kArrayBytes = 4 * kMiB;
  const auto blocks = static_cast<std::uint32_t>(kArrayBytes / design.block_bytes);
  double sum = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    sum += run_kernel(timing, design, blocks, static_cast<std::uint64_t>(seed)).parameters_per_s();
  }
  return sum / seeds;
}

double mean_core_rate(const DramTiming& timing, const HostCore& core, int seeds) {
  constexpr std::uint64_t kParameters = 125'000;
  double sum = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    sum += run_core(timing, core, kParameters, static_cast<std::uint64_t>(seed)).parameters_per_s();
  }
  return sum / seeds;
}

ChannelRates measure(const DramTiming& kernel_channel, const KernelDesign& design,
                     const DramTiming& host_channel, const HostCore& core) {
  constexpr int kSeeds = 4;
  return {mean_kernel_rate(kernel_channel, design, kSeeds),
          mean_core_rate(host_channel, core, kSeeds), copy_bytes_per_s(host_channel, false)};
}

ChannelRates paper_rates() { return measure(axdimm_channel(), {}, host_module(), {}); }

Platform paper_platform(Updater updater, const ChannelRates& rates) {
  Platform platform;
  platform.updater = updater;
  platform.updates_per_s = updater == Updater::kKernel ? rates.kernel_per_s : rates.core_per_s;
  platform.gpu_flop_per_s = kV100FlopPerS;
  platform.memory_bytes_per_s = rates.copy_bytes_per_s;
  platform.gpu_link_bytes_per_s = kPcie3BytesPerS;
  platform.storage_read_bytes_per_s = kNvmeBytesPerS;
  platform.storage_write_bytes_per_s = kNvmeBytesPerS;
  platform.storage_to_gpu_bytes_per_s = kNvmeToGpuBytesPerS;
  return platform;
}

std::vector<TodaysParts> todays_parts() {
  const DramTiming ddr5 = ddr5_channel();
  const ChannelRates channel = measure(ddr5, ddr5_kernel(ddr5), ddr5, many_cores());
  constexpr double kServer = 8;  // channels of a socket (chosen)
  // GH200 with 480 GB of LPDDR5X: 384 GB/s (data sheet), taken for ten channels of DDR5-4800 and as
  // efficient; NVLink-C2C 450 GB/s each way (data sheet).
  constexpr double kGrace = 10;
  constexpr double kC2cBytesPerS = 450 * kGiga;
  constexpr double kH200BytesPerS = 55.4 * kGiga;  // measured (h200.toml)
  // CXL 2.0 on PCIe 5.0 x8, 31.5 GB/s each way less a sixth for its protocol (chosen); inside, two
  // channels. A CPU reads 16 bytes of a parameter over it while 12 go the other way.
  constexpr double kExpander = 2;
  constexpr double kCxlBytesPerS = 26 * kGiga;
  constexpr double kReadBytes = 16;
  const auto direct = [&](const std::string& name, double channels, double gpu_bytes_per_s) {
    return parts(name, {channels * channel.copy_bytes_per_s, gpu_bytes_per_s,
                        channels * channel.core_per_s, channels * channel.kernel_per_s});
  };
  return {
      direct("H200, PCIe 5, 8 channels of DDR5", kServer, kH200BytesPerS),
      direct("GH200, NVLink-C2C, LPDDR5X", kGrace, kC2cBytesPerS),
      parts("H200, CXL memory of 2 channels",
            {2 * kCxlBytesPerS, kCxlBytesPerS, kCxlBytesPerS / kReadBytes,
             kExpander * channel.kernel_per_s}),
  };
}

}  // namespace spillway::sim::near_memory
