// Algorithm 1 as it is written down: every copy is laid slot by slot, every benefit added up slot
// by slot. What the planner's trees must agree with, to the last bit.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "policy/planning/channels.h"
#include "policy/planning/g10_planner.h"

namespace spillway::test {

class PlainChannels {
 public:
  PlainChannels(const Machine& machine, const std::vector<TimeNs>& slot_ns)
      : slots_(slot_ns.size()) {
    const auto fill = [&](std::vector<double>& capacity, double bytes_per_s) {
      for (const TimeNs ns : slot_ns) {
        capacity.push_back(bytes_per_s * 1e-9 * static_cast<double>(ns));
      }
    };
    fill(link_[index_of(Direction::kOut)], machine.link.from_device_bytes_per_s);
    fill(link_[index_of(Direction::kIn)], machine.link.to_device_bytes_per_s);
    fill(storage_[index_of(Direction::kOut)], machine.storage.write_bytes_per_s);
    fill(storage_[index_of(Direction::kIn)], machine.storage.read_bytes_per_s);
  }

  std::optional<std::size_t> earliest_end(Tier tier, Bytes bytes, std::size_t first,
                                          std::size_t limit) const {
    auto left = static_cast<double>(bytes);
    for (std::size_t slot = first; slot < limit; ++slot) {
      left -= room(tier, Direction::kOut, slot);
      if (left <= kCrumbBytes) {
        return slot;
      }
    }
    return std::nullopt;
  }

  std::optional<std::size_t> latest_start(Tier tier, Bytes bytes, std::size_t last,
                                          std::size_t limit) const {
    auto left = static_cast<double>(bytes);
    for (std::size_t slot = last; slot > limit; --slot) {
      left -= room(tier, Direction::kIn, slot - 1);
      if (left <= kCrumbBytes) {
        return slot - 1;
      }
    }
    return std::nullopt;
  }

  void take_out(Tier tier, Bytes bytes, std::size_t first) {
    auto left = static_cast<double>(bytes);
    for (std::size_t slot = first; left > kCrumbBytes && slot < first + slots_; ++slot) {
      const double moved = std::min(left, room(tier, Direction::kOut, slot));
      take(tier, Direction::kOut, slot, moved);
      left -= moved;
    }
  }

  void take_in(Tier tier, Bytes bytes, std::size_t last) {
    auto left = static_cast<double>(bytes);
    for (std::size_t slot = last + slots_; left > kCrumbBytes && slot > last; --slot) {
      const double moved = std::min(left, room(tier, Direction::kIn, slot - 1));
      take(tier, Direction::kIn, slot - 1, moved);
      left -= moved;
    }
  }

 private:
  static std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }
  double room(Tier tier, Direction direction, std::size_t slot) const {
    const double link = link_[index_of(direction)][ring(slot)];
    return tier == Tier::kHost ? link : std::min(link, storage_[index_of(direction)][ring(slot)]);
  }

  void take(Tier tier, Direction direction, std::size_t slot, double bytes) {
    link_[index_of(direction)][ring(slot)] -= bytes;
    if (tier == Tier::kStorage) {
      storage_[index_of(direction)][ring(slot)] -= bytes;
    }
  }
  [[nodiscard]] std::size_t ring(std::size_t slot) const { return slot % slots_; }

  static constexpr double kCrumbBytes = 0.5;
  std::size_t slots_;
  std::array<std::vector<double>, 2> link_;
  std::array<std::vector<double>, 2> storage_;
};

struct Window {
  Tier to;
  std::size_t evicted;  // last slot in which bytes leave
  std::size_t fetch;    // first slot in which bytes come back
};

class PlainScheduler {
 public:
  PlainScheduler(const Trace& trace, const Vitality& vitality, const Machine& machine,
                 const G10Options& options, const std::vector<TimeNs>& slot_ns)
      : trace_(trace),
        vitality_(vitality),
        machine_(machine),
        options_(options),
        slot_ns_(slot_ns),
        channels_(machine, slot_ns),
        idle_channels_(channels_),
        taken_(vitality.periods.size(), false),
        slots_(slot_ns.size()),
        host_bytes_(slots_, 0) {
    const MemoryCurve curve = memory_curve(trace, vitality, machine.device.frame_bytes);
    for (const KernelMemory& kernel : curve.kernels) {
      pressure_.push_back(kernel.live_bytes);
    }
  }

  EvictionSchedule run() {
    choose_while_over_capacity();
    for (const Timing timing : {Timing::kAlone, Timing::kStalling}) {
      if (options_.stalling) {
        timing_ = timing;
        choose_while_over_capacity();
      }
    }
    schedule_.fits = !over_capacity();
    schedule_.pressure_bytes = pressure_;
    return std::move(schedule_);
  }

 private:
  // What a candidate's copies may count on. The first round takes those that hide behind kernels.
  // Where they do not suffice, the iteration will take longer than its kernels, and other copies
  // will find time too: first those that fit into their periods if they had the links to
  // themselves, then any.
  enum class Timing { kHidden, kAlone, kStalling };

  // Benefits only shrink as evictions are chosen: pressure falls and channels fill. So a candidate
  // whose benefit, computed anew, is still at least the next one's is the best of all, and the list
  // need not be sorted again.
  struct Candidate {
    double value;
    std::size_t period;
    bool operator<(const Candidate& other) const {
      return value != other.value ? value < other.value : period > other.period;
    }
  };

  void choose_while_over_capacity() {
    std::priority_queue<Candidate> candidates;
    for (std::size_t i = 0; i < vitality_.periods.size(); ++i) {
      if (!taken_[i]) {
        if (const double value = best_value(i); value > 0) {
          candidates.push({value, i});
        }
      }
    }
    while (!candidates.empty() && over_capacity()) {
      const Candidate top = candidates.top();
      candidates.pop();
      const std::optional<Window> window = choose(top.period);
      if (!window) {
        continue;
      }
      const double value = value_of(top.period, *window);
      if (value <= 0) {
        continue;
      }
      if (!candidates.empty() && value < candidates.top().value) {
        candidates.push({value, top.period});
        continue;
      }
      accept(top.period, *window);
      taken_[top.period] = true;
      schedule_.periods.push_back(
          {top.period, window->to, window->evicted, window->fetch, window->fetch});
    }
  }

  [[nodiscard]] std::size_t ring(std::size_t slot) const { return slot % slots_; }
  [[nodiscard]] std::size_t first_slot(const InactivePeriod& period) const {
    return period.after + std::size_t{1};
  }
  [[nodiscard]] std::size_t end_slot(const InactivePeriod& period) const {
    return period.wraps ? period.until + slots_ : period.until;
  }
  [[nodiscard]] Bytes bytes_of(const InactivePeriod& period) const {
    return round_up(trace_.tensors[period.tensor].bytes, machine_.device.frame_bytes);
  }
  [[nodiscard]] bool over_capacity() const {
    return std::any_of(pressure_.begin(), pressure_.end(),
                       [&](Bytes bytes) { return bytes > machine_.device.capacity_bytes; });
  }

  [[nodiscard]] std::optional<Window> window_in(const InactivePeriod& period, Tier tier) const {
    const Bytes bytes = bytes_of(period);
    const std::size_t end = end_slot(period);
    if (timing_ == Timing::kStalling) {
      // Gone before the next kernel, back before the last one: as good as it can be.
      return Window{tier, period.after, end};
    }
    const PlainChannels& channels = timing_ == Timing::kHidden ? channels_ : idle_channels_;
    const auto evicted = channels.earliest_end(tier, bytes, first_slot(period), end);
    if (!evicted) {
      return std::nullopt;
    }
    const auto fetch = channels.latest_start(tier, bytes, end, *evicted + 1);
    if (!fetch) {
      return std::nullopt;
    }
    return Window{tier, *evicted, *fetch};
  }

  [[nodiscard]] bool host_has_room(const InactivePeriod& period) const {
    const Bytes bytes = bytes_of(period);
    for (std::size_t slot = first_slot(period); slot < end_slot(period); ++slot) {
      if (host_bytes_[ring(slot)] + bytes > machine_.host.capacity_bytes) {
        return false;
      }
    }
    return true;
  }

  // Storage first, for its size; host memory when storage is too busy for the tensor to go at once
  // and come back in time (algorithm 1, lines 7 to 17).
  [[nodiscard]] std::optional<Window> choose(std::size_t index) const {
    const InactivePeriod& period = vitality_.periods[index];
    if (timing_ != Timing::kHidden && options_.uses_host && host_has_room(period)) {
      return window_in(period, Tier::kHost);  // what makes kernels wait goes the fastest way
    }
    std::optional<Window> storage;
    if (options_.uses_storage) {
      storage = window_in(period, Tier::kStorage);
    }
    if (storage && !storage_is_full(period, *storage)) {
      return storage;
    }
    if (options_.uses_host && host_has_room(period)) {
      if (const std::optional<Window> host = window_in(period, Tier::kHost)) {
        return host;
      }
    }
    return storage;
  }

  // Whether other evictions would delay this one: it ends later than it would on idle storage.
  [[nodiscard]] bool storage_is_full(const InactivePeriod& period, const Window& window) const {
    const double alone_ns =
        static_cast<double>(bytes_of(period)) * 1e9 / machine_.storage.write_bytes_per_s;
    double elapsed_ns = 0;
    for (std::size_t slot = first_slot(period); slot < window.evicted; ++slot) {
      elapsed_ns += static_cast<double>(slot_ns_[ring(slot)]);
    }
    return elapsed_ns >= alone_ns;
  }

  // Pressure above the capacity that the eviction takes away, times how long, over what it costs:
  // the bytes that move (figure 7).
  [[nodiscard]] double value_of(std::size_t index, const Window& window) const {
    const auto bytes = static_cast<double>(bytes_of(vitality_.periods[index]));
    const auto capacity = static_cast<double>(machine_.device.capacity_bytes);
    double area = 0;
    for (std::size_t slot = window.evicted + 1; slot < window.fetch; ++slot) {
      const double excess = static_cast<double>(pressure_[ring(slot)]) - capacity;
      if (excess > 0) {
        // A kernel of no length counts a little, so that its excess is taken away too.
        area += std::min(bytes, excess) * static_cast<double>(slot_ns_[ring(slot)] + 1);
      }
    }
    return area / bytes;
  }

  [[nodiscard]] double best_value(std::size_t index) const {
    double best = 0;
    for (const Tier tier : {Tier::kStorage, Tier::kHost}) {
      if (tier == Tier::kHost ? !options_.uses_host : !options_.uses_storage) {
        continue;
      }
      if (const auto window = window_in(vitality_.periods[index], tier)) {
        best = std::max(best, value_of(index, *window));
      }
    }
    return best;
  }

  void accept(std::size_t index, const Window& window) {
    const InactivePeriod& period = vitality_.periods[index];
    const Bytes bytes = bytes_of(period);
    channels_.take_out(window.to, bytes, first_slot(period));
    channels_.take_in(window.to, bytes, end_slot(period));
    for (std::size_t slot = window.evicted + 1; slot < window.fetch; ++slot) {
      pressure_[ring(slot)] -= bytes;
    }
    if (window.to == Tier::kHost) {
      for (std::size_t slot = first_slot(period); slot < end_slot(period); ++slot) {
        host_bytes_[ring(slot)] += bytes;
      }
    }
  }

  const Trace& trace_;
  const Vitality& vitality_;
  const Machine& machine_;
  const G10Options& options_;
  const std::vector<TimeNs>& slot_ns_;
  PlainChannels channels_;
  PlainChannels idle_channels_;
  std::vector<bool> taken_;
  Timing timing_ = Timing::kHidden;
  EvictionSchedule schedule_;
  std::size_t slots_;
  std::vector<Bytes> pressure_;
  std::vector<Bytes> host_bytes_;
};

}  // namespace spillway::test
