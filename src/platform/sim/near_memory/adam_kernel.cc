// Blocks in, results out. See adam_kernel.h.
#include "platform/sim/near_memory/adam_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace spillway::sim::near_memory {
namespace {

// Loads and stores of blocks in the kernel's order, each burst at the earliest clock that DRAM,
// queues and units allow.
class Pipeline {
 public:
  Pipeline(const DramTiming& timing, const KernelDesign& design, std::uint64_t seed)
      : design_(design),
        channel_(timing),
        words_(static_cast<std::size_t>(design.block_bytes / DramTiming::kBurstBytes)),
        cycle_(design.clock_ns / timing.clock_ns),
        read_every_(static_cast<Clocks>(design.read_every_ns / timing.clock_ns)),
        recent_(design.bursts_ahead, 0),
        consumed_(design.blocks_queued, 0),
        results_(design.blocks_queued, 0),
        stored_(design.blocks_queued, 0) {
    constexpr Bytes kArrayBytes = kGiB;  // apart, so that they never meet
    Rng rng(seed);
    const Bytes step = std::max(design.block_bytes, DramTiming::kBurstBytes);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      arrays_[i] = kArrayBytes * i + rng.below(kArrayBytes / 2 / step) * step;
    }
  }

  KernelRun run(std::uint32_t blocks) {
    // With double buffering the next block is loaded while one is computed and stored.
    const std::uint32_t ahead = design_.blocks_queued - 1;
    for (std::uint32_t k = 0; k < blocks + ahead; ++k) {
      if (k < blocks) {
        load(k);
      }
      if (k >= ahead) {
        store(k - ahead);
      }
    }
    run_.parameters = std::uint64_t{blocks} * design_.block_bytes / sizeof(float);
    run_.seconds = answered_ * channel_.timing().clock_ns * 1e-9;
    run_.counts = channel_.counts();
    return run_;
  }

 private:
  // The burst's command, no earlier than `from`; the controller knows so many bursts ahead.
  Clocks issue(const Burst& burst, double from) {
    Clocks& slot = recent_[next_++ % recent_.size()];
    const Clocks known = std::max(slot, static_cast<Clocks>(std::ceil(from)));
    slot = channel_.issue(burst, known);
    if (!burst.is_write) {
      last_read_ = slot;
    } else if (slot - last_read_ >= read_every_) {
      Burst again = burst;
      again.is_write = false;
      channel_.issue(again, slot);
      last_read_ = channel_.issue(again, slot);
      run_.reads_for_timing += 2;
    }
    return slot;
  }

  [[nodiscard]] Burst at(std::size_t array, std::uint32_t block, std::size_t word,
                         bool is_write) const {
    return burst_at(channel_.timing(),
                    arrays_[array] + block * design_.block_bytes + word * DramTiming::kBurstBytes,
                    is_write);
  }

  // From when the port takes requests for a block.
  [[nodiscard]] double port_from(bool is_write) {
    const bool waits = design_.order == PortOrder::kBlocks ||
                       (design_.order == PortOrder::kDirections && is_write != was_write_);
    was_write_ = is_write;
    return waits ? answered_ + design_.port_cycles * cycle_ : 0;
  }

  // All of a block's bursts, and when the last has been answered.
  void transfer(std::size_t array, std::uint32_t block, bool is_write, double from) {
    from = std::max(from, port_from(is_write));
    for (std::size_t word = 0; word < words_; ++word) {
      const Burst burst = at(array, block, word, is_write);
      const Clocks command = issue(burst, from);
      answered_ =
          static_cast<double>(channel_.data_end(burst, command)) + design_.port_cycles * cycle_;
      if (!is_write && array + 1 == KernelDesign::kInputs) {
        // The last input of the word is here: the units take one word a cycle.
        started_ = std::max(answered_, started_ + cycle_);
      }
    }
  }

  void load(std::uint32_t block) {
    const std::size_t place = block % design_.blocks_queued;
    // Its results need the place of those that were there.
    started_ = std::max(started_, stored_[place]);
    for (std::size_t array = 0; array < KernelDesign::kInputs; ++array) {
      transfer(array, block, false, consumed_[place]);
    }
    consumed_[place] = started_ + cycle_;
    results_[place] = consumed_[place] + design_.latency_cycles * cycle_;
    ++loaded_;
    run_.most_blocks_queued = std::max(run_.most_blocks_queued, loaded_ - written_);
  }

  // Results are stored once their block is complete.
  void store(std::uint32_t block) {
    const std::size_t place = block % design_.blocks_queued;
    constexpr std::array<std::size_t, KernelDesign::kOutputs> kArrays{0, 2, 3};  // not the gradient
    for (const std::size_t array : kArrays) {
      transfer(array, block, true, results_[place] + design_.port_cycles * cycle_);
    }
    stored_[place] = answered_;
    ++written_;
  }

  KernelDesign design_;
  DramChannel channel_;
  std::size_t words_;
  double cycle_;  // of the kernel, in clocks of the channel
  Clocks read_every_;
  std::array<Bytes, KernelDesign::kInputs> arrays_{};
  std::vector<Clocks> recent_;  // commands of the latest bursts, in a ring
  std::size_t next_ = 0;
  Clocks last_read_ = 0;
  double started_ = 0;   // of the last word, in the units
  double answered_ = 0;  // the latest request
  bool was_write_ = false;
  // By place in the queues: when its inputs are used, its results there, and stored.
  std::vector<double> consumed_;
  std::vector<double> results_;
  std::vector<double> stored_;
  std::uint32_t loaded_ = 0;
  std::uint32_t written_ = 0;
  KernelRun run_;
};

}  // namespace

KernelRun run_kernel(const DramTiming& timing, const KernelDesign& design, std::uint32_t blocks,
                     std::uint64_t seed) {
  return Pipeline(timing, design, seed).run(blocks);
}

}  // namespace spillway::sim::near_memory
