// The rules between commands. See dram_channel.h.
#include "platform/sim/near_memory/dram_channel.h"

#include <algorithm>

namespace spillway::sim::near_memory {

Burst burst_at(const DramTiming& timing, Bytes address, bool is_write) {
  std::uint64_t rest = address / DramTiming::kBurstBytes;
  const auto take = [&rest](std::uint64_t count) {
    const auto digit = static_cast<std::uint32_t>(rest % count);
    rest /= count;
    return digit;
  };
  constexpr std::uint32_t kInterleaved = 2;
  Burst burst;
  burst.is_write = is_write;
  burst.bank_group = take(kInterleaved);
  take(timing.row_bytes / DramTiming::kBurstBytes);  // the column
  burst.bank_group += kInterleaved * take(timing.bank_groups / kInterleaved);
  burst.bank = take(timing.banks_per_group);
  burst.rank = take(timing.ranks);
  burst.row = static_cast<std::uint32_t>(rest);
  return burst;
}

DramChannel::DramChannel(const DramTiming& timing)
    : timing_(timing),
      banks_(timing.banks()),
      groups_(std::size_t{timing.ranks} * timing.bank_groups),
      ranks_(timing.ranks) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {  // ranks take turns
    ranks_[i].refresh_due =
        timing_.refi * static_cast<Clocks>(i + 1) / static_cast<Clocks>(ranks_.size());
  }
}

std::size_t DramChannel::group_of(const Burst& burst) const {
  return std::size_t{burst.rank} * timing_.bank_groups + burst.bank_group;
}

std::size_t DramChannel::bank_of(const Burst& burst) const {
  return group_of(burst) * timing_.banks_per_group + burst.bank;
}

bool DramChannel::is_open(const Burst& burst) const {
  return banks_[bank_of(burst)].row == static_cast<std::int64_t>(burst.row);
}

// From when the data bus and the ranks' and groups' rules let a column command through.
Clocks DramChannel::bus_from(const Burst& burst) const {
  Clocks from = last_column_ + timing_.ccd_s;
  if (burst.rank != last_rank_) {
    from += timing_.turn;
  }
  if (burst.is_write != last_was_write_) {
    const Clocks latency = timing_.cl - timing_.cwl;
    from = std::max(
        from, last_column_ + timing_.burst + timing_.turn + (burst.is_write ? latency : -latency));
  }
  const Group& group = groups_[group_of(burst)];
  if (burst.is_write) {
    return std::max(from, group.written + timing_.ccd_l);
  }
  const Clocks written = timing_.cwl + timing_.burst;
  from = std::max(from, ranks_[burst.rank].written + written + timing_.wtr_s);
  from = std::max(from, group.written + written + timing_.wtr_l);
  return std::max(from, group.read + timing_.ccd_l);
}

DramChannel::Commands DramChannel::commands_of(const Burst& burst, Clocks known) const {
  const Bank& bank = banks_[bank_of(burst)];
  Commands commands;
  Clocks ready = std::max(known, bank.column_from);
  if (!is_open(burst)) {
    const Rank& rank = ranks_[burst.rank];
    Clocks activate = known;
    if (bank.row != kClosed) {
      activate = std::max(known, bank.precharge_from) + timing_.rp;
    }
    activate = std::max({activate, bank.activate_from, rank.activated + timing_.rrd_s,
                         groups_[group_of(burst)].activated + timing_.rrd_l,
                         rank.activates[rank.oldest] + timing_.faw});
    commands.activates = true;
    commands.activate = activate;
    ready = activate + timing_.rcd;
  }
  commands.column = std::max(ready, bus_from(burst));
  return commands;
}

Clocks DramChannel::earliest(const Burst& burst, Clocks known) const {
  return commands_of(burst, known).column;
}

// Closes all rows of the rank, and keeps them closed until it is done.
void DramChannel::refresh(std::uint32_t number) {
  Rank& rank = ranks_[number];
  const std::size_t count = banks_.size() / ranks_.size();
  const std::size_t first = count * number;
  Clocks start = rank.refresh_due;
  for (std::size_t i = first; i < first + count; ++i) {
    const Bank& bank = banks_[i];
    start = std::max(start,
                     bank.row == kClosed ? bank.activate_from : bank.precharge_from + timing_.rp);
  }
  for (std::size_t i = first; i < first + count; ++i) {
    banks_[i].row = kClosed;
    banks_[i].activate_from = start + timing_.rfc;
  }
  rank.refresh_due += timing_.refi;
  ++counts_.refreshes;
}

Clocks DramChannel::issue(const Burst& burst, Clocks known) {
  Commands commands = commands_of(burst, known);
  while (commands.column >= ranks_[burst.rank].refresh_due) {
    refresh(burst.rank);
    commands = commands_of(burst, known);
  }
  Bank& bank = banks_[bank_of(burst)];
  Group& group = groups_[group_of(burst)];
  Rank& rank = ranks_[burst.rank];
  if (commands.activates) {
    bank.row = burst.row;
    bank.column_from = commands.activate + timing_.rcd;
    bank.precharge_from = commands.activate + timing_.ras;
    bank.activate_from = commands.activate + timing_.ras + timing_.rp;
    group.activated = rank.activated = commands.activate;
    rank.activates[rank.oldest] = commands.activate;
    rank.oldest = (rank.oldest + 1) % rank.activates.size();
    ++counts_.activates;
  }
  const Clocks done = burst.is_write ? commands.column + timing_.cwl + timing_.burst + timing_.wr
                                     : commands.column + timing_.rtp;
  bank.precharge_from = std::max(bank.precharge_from, done);
  (burst.is_write ? group.written : group.read) = commands.column;
  (burst.is_write ? rank.written : rank.read) = commands.column;
  ++(burst.is_write ? counts_.writes : counts_.reads);
  counts_.turns += last_column_ != kNever && burst.is_write != last_was_write_ ? 1U : 0U;
  last_column_ = commands.column;
  last_rank_ = burst.rank;
  last_was_write_ = burst.is_write;
  return commands.column;
}

}  // namespace spillway::sim::near_memory
