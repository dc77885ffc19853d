// A DDR channel: banks with open rows, one command and data bus, refresh. Layer: platform,
// simulator. It takes bursts one after the other and says when each is read or written; which one
// comes next is the controller's choice. Column commands keep their order, while precharges and
// activates of a burst may come before the column commands of earlier ones. The command bus itself
// is not modelled: a burst has four clocks and needs three commands at most.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "platform/sim/near_memory/dram_timing.h"

namespace spillway::sim::near_memory {

struct Burst {
  std::uint32_t rank = 0;
  std::uint32_t bank_group = 0;
  std::uint32_t bank = 0;  // in its group
  std::uint32_t row = 0;
  bool is_write = false;
};

// Where 64 bytes of a channel lie: neighbours alternate between two bank groups, so that 16 KiB are
// two whole rows (paper section 3.4); then come the other groups, banks, ranks and rows.
[[nodiscard]] Burst burst_at(const DramTiming& timing, Bytes address, bool is_write);

struct DramCounts {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t activates = 0;
  std::uint64_t refreshes = 0;
  std::uint64_t turns = 0;  // from reading to writing or back
};

// Not thread-safe.
class DramChannel {
 public:
  explicit DramChannel(const DramTiming& timing);

  // Carries out the burst as soon as may be, with no command of it before `known`, and refreshes
  // that fall due before it. Returns the clock of its read or write command.
  Clocks issue(const Burst& burst, Clocks known);
  // When that would be, refreshes aside.
  [[nodiscard]] Clocks earliest(const Burst& burst, Clocks known) const;
  [[nodiscard]] bool is_open(const Burst& burst) const;

  // The end of its data, of a burst whose command was at `command`.
  [[nodiscard]] Clocks data_end(const Burst& burst, Clocks command) const {
    return command + (burst.is_write ? timing_.cwl : timing_.cl) + timing_.burst;
  }
  [[nodiscard]] const DramTiming& timing() const { return timing_; }
  [[nodiscard]] const DramCounts& counts() const { return counts_; }

 private:
  static constexpr Clocks kNever = -1'000'000;
  static constexpr std::int64_t kClosed = -1;

  struct Bank {
    std::int64_t row = kClosed;
    Clocks activate_from = 0;
    Clocks precharge_from = 0;
    Clocks column_from = 0;
  };
  struct Group {
    Clocks activated = kNever;
    Clocks read = kNever;
    Clocks written = kNever;
  };
  struct Rank {
    Clocks activated = kNever;
    Clocks read = kNever;
    Clocks written = kNever;
    std::array<Clocks, 4> activates{kNever, kNever, kNever, kNever};  // the latest, in a ring
    std::size_t oldest = 0;
    Clocks refresh_due = 0;
  };
  struct Commands {
    bool activates = false;
    Clocks activate = 0;
    Clocks column = 0;
  };

  [[nodiscard]] std::size_t group_of(const Burst& burst) const;
  [[nodiscard]] std::size_t bank_of(const Burst& burst) const;
  [[nodiscard]] Commands commands_of(const Burst& burst, Clocks known) const;
  [[nodiscard]] Clocks bus_from(const Burst& burst) const;
  void refresh(std::uint32_t rank);

  DramTiming timing_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::vector<Rank> ranks_;
  Clocks last_column_ = kNever;
  std::uint32_t last_rank_ = 0;
  bool last_was_write_ = false;
  DramCounts counts_;
};

}  // namespace spillway::sim::near_memory
