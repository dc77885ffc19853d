// The core's cache lines and the memory controller's two queues. See cpu_adam.h.
#include "platform/sim/near_memory/cpu_adam.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/rng.h"

namespace spillway::sim::near_memory {
namespace {

constexpr std::uint64_t kParametersPerLine = DramTiming::kBurstBytes / sizeof(float);

class Loop {
 public:
  Loop(const DramTiming& timing, const HostCore& core, std::uint64_t lines, std::uint64_t seed)
      : core_(core),
        channel_(timing),
        arrays_(core.results == Results::kApart ? 7 : 4),
        lines_(lines),
        aged_(core.cache_bytes / DramTiming::kBurstBytes / arrays_),
        free_(core.lines_in_flight, 0) {
    Rng rng(seed);
    const Bytes bytes = (lines_ + aged_) * DramTiming::kBurstBytes;
    const std::uint64_t pages = arrays_ * (bytes / core.page_bytes + 1);
    for (std::uint64_t i = 0; i < pages; ++i) {
      pages_.push_back(rng.below(kFrames));
    }
  }

  CoreRun run() {
    const std::uint64_t reads = lines_ * arrays_;
    Clocks last = 0;
    for (std::uint64_t served = 0; served < reads;) {
      while (next_ < reads && !free_.empty() && writes_.size() < core_.writes_queued) {
        request(next_++);
      }
      drains_ = drains_ ? writes_.size() > core_.writes_left
                        : writes_.size() >= core_.writes_queued || reads_.empty();
      if (drains_) {
        last = serve(writes_);
      } else {
        last = serve(reads_);
        const auto uncore = static_cast<Clocks>(core_.uncore_ns / channel_.timing().clock_ns);
        free_.push_back(channel_.data_end({}, last) + uncore);
        ++served;
      }
    }
    return {lines_ * kParametersPerLine,
            static_cast<double>(last) * channel_.timing().clock_ns * 1e-9, channel_.counts()};
  }

 private:
  static constexpr std::uint64_t kFrames = 2'000'000;  // of 4 KiB: 8 GB
  struct Request {
    Burst burst;
    Clocks known;
  };

  [[nodiscard]] Burst at(std::uint64_t array, std::uint64_t line, bool is_write) const {
    const Bytes offset = line * DramTiming::kBurstBytes;
    const std::uint64_t page = array * (pages_.size() / arrays_) + offset / core_.page_bytes;
    return burst_at(channel_.timing(), pages_[page] * core_.page_bytes + offset % core_.page_bytes,
                    is_write);
  }

  // Of the parameter, the gradient and two moments, or of their new values behind them.
  [[nodiscard]] bool is_written(std::uint64_t array) const {
    return core_.results == Results::kApart ? array >= 4 : array != 1;
  }

  // A line of each array in turn; what it displaces in the cache is written if it was modified.
  void request(std::uint64_t number) {
    const std::uint64_t array = number % arrays_;
    const std::uint64_t line = number / arrays_;
    const auto first_free = std::min_element(free_.begin(), free_.end());
    const Clocks known = *first_free;
    free_.erase(first_free);
    reads_.push_back({at(array, line + aged_, false), known});
    if (is_written(array)) {
      writes_.push_back({at(array, line, true), known});
    }
  }

  // The one that can come first; of several, the one that has waited longest.
  Clocks serve(std::vector<Request>& queue) {
    auto chosen = queue.begin();
    Clocks soonest = channel_.earliest(chosen->burst, chosen->known);
    for (auto other = std::next(chosen); other != queue.end(); ++other) {
      const Clocks clock = channel_.earliest(other->burst, other->known);
      if (clock < soonest) {
        chosen = other;
        soonest = clock;
      }
    }
    const Clocks command = channel_.issue(chosen->burst, chosen->known);
    queue.erase(chosen);
    return command;
  }

  HostCore core_;
  DramChannel channel_;
  std::uint64_t arrays_;
  std::uint64_t lines_;
  std::uint64_t aged_;  // lines of one array in the cache
  std::vector<std::uint64_t> pages_;
  std::vector<Clocks> free_;  // from when another line may be asked for
  std::vector<Request> reads_;
  std::vector<Request> writes_;
  std::uint64_t next_ = 0;
  bool drains_ = false;
};

}  // namespace

CoreRun run_core(const DramTiming& timing, const HostCore& core, std::uint64_t parameters,
                 std::uint64_t seed) {
  return Loop(timing, core, parameters / kParametersPerLine, seed).run();
}

double copy_bytes_per_s(const DramTiming& timing, bool is_write) {
  constexpr Bytes kBytes = 4 * kMiB;
  constexpr std::size_t kAhead = 16;  // bursts that the controller knows
  DramChannel channel(timing);
  std::vector<Clocks> recent(kAhead, 0);
  Clocks last = 0;
  for (Bytes address = 0; address < kBytes; address += DramTiming::kBurstBytes) {
    Clocks& known = recent[address / DramTiming::kBurstBytes % kAhead];
    known = channel.issue(burst_at(timing, address, is_write), known);
    last = known;
  }
  return static_cast<double>(kBytes) / (static_cast<double>(last) * timing.clock_ns * 1e-9);
}

}  // namespace spillway::sim::near_memory
