// See run_text.h.
#include "runtime/report/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/report/fits_in.h"

namespace spillway {
namespace {

constexpr std::size_t kBarColumns = 10;

std::string bar(double fraction) {
  const auto full = static_cast<std::size_t>(
      std::lround(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(kBarColumns)));
  return std::string(full, '#') + std::string(kBarColumns - full, '-');
}

std::string plan_text(const PlanReport& plan) {
  if (!plan.error.empty()) {
    return fmt::format("  plan       none: {}\n", plan.error);
  }
  const std::string anew =
      plan.number > 1 ? fmt::format("; number {}, since the program has changed", plan.number) : "";
  return fmt::format(
      "  plan       {} launches, {} tensors, {} alive at once; an iteration moves {} to host "
      "memory and {} to storage, and takes {:.2f} s instead of {:.2f} s{}\n",
      plan.launches, plan.tensors, format_bytes(plan.peak_bytes), format_bytes(plan.to_host_bytes),
      format_bytes(plan.to_storage_bytes), to_seconds(plan.estimated_ns),
      to_seconds(plan.computation_ns), anew);
}

// The first few say where to look; the record has more.
std::string modules_text(const std::vector<RunWait>& modules) {
  constexpr std::size_t kModulesMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(modules.size(), kModulesMost); ++i) {
    text += fmt::format("{}{:.2f} s in {}", i == 0 ? "  waited     " : ", ", modules[i].wait_s,
                        modules[i].name);
  }
  return text.empty() ? text : text + "\n";
}

// What the budget does not hold for.
std::string past_budget_text(const RunRecord& record) {
  std::string text;
  for (const RunPastBudget& one : record.device.past_budget) {
    text += fmt::format("{}{} by {}{}", text.empty() ? "" : ", ", format_bytes(one.peak_bytes),
                        one.call, one.library.empty() ? "" : " (" + one.library + ")");
  }
  if (!text.empty()) {
    text = fmt::format("  past limit {} of device memory at the highest: {}\n",
                       format_bytes(record.device.past_budget_peak_bytes), text);
  }
  if (record.device.in_use_peak_bytes > 0) {
    text += fmt::format("  device     {} in use by this process at the highest, its driver says\n",
                        format_bytes(record.device.in_use_peak_bytes));
  } else if (record.device.growth_peak_bytes > 0) {
    text += fmt::format(
        "  device     {} more in use than at the start at the highest, its driver says, by all "
        "processes\n",
        format_bytes(record.device.growth_peak_bytes));
  }
  return text;
}

// So many times what is alive has come back: it is used faster than it can be brought.
constexpr double kThrashes = 20;

double times_moved(Bytes moved_bytes, Bytes alive_bytes) {
  return static_cast<double>(moved_bytes) /
         static_cast<double>(std::max<Bytes>(alive_bytes, kBlockBytes));
}

// With which it would no longer be so: a half more, if all does not take less.
Bytes needed_bytes(Bytes budget_bytes, Bytes alive_bytes) {
  return std::min(alive_bytes, budget_bytes + budget_bytes / 2);
}

// Nothing went anywhere, and nothing was given up to be made again: all had a place at once.
bool moved_nothing(const RunRecord& record) {
  const auto is_nothing = [](const TierBytes& to) { return to == TierBytes{}; };
  return std::all_of(record.moves.bytes.begin(), record.moves.bytes.end(), is_nothing) &&
         record.moves.evictions == 0 && record.moves.given_up_bytes == 0 &&
         record.moves.host_mapped_bytes == 0 && record.memory.peak_bytes > 0 &&
         record.memory.peak_bytes <= record.budget(Tier::kDevice);
}

// The first use of memory is waited for: on a GPU until it is mapped, on the host until it is
// there.
std::string fits_text(const RunRecord& record) {
  constexpr double kNothing = 0.005;   // of the time
  constexpr double kNothingS = 0.005;  // which would be printed as none
  const bool free =
      record.times.stalled_s <= std::max(kNothing * record.times.elapsed_s, kNothingS);
  const auto time = [](double seconds) {
    return format_time(std::llround(seconds * static_cast<double>(kNsPerS)));
  };
  return fmt::format(
      "everything fit: {} of {} of device memory at the highest, nothing moved, {}\n",
      format_bytes(record.memory.peak_bytes), format_bytes(record.budget(Tier::kDevice)),
      free ? "the run cost nothing"
           : fmt::format("making memory ready for its first use took {} of {}",
                         time(record.times.stalled_s), time(record.times.elapsed_s)));
}

std::string refused_text(const RunRecord& record) {
  return fmt::format("{} {} refused, the largest of {}", record.memory.refused_allocations,
                     record.memory.refused_allocations == 1 ? "allocation was" : "allocations were",
                     format_bytes(record.memory.refused_largest_bytes));
}

// What the tiers may hold at most.
std::string limits_text(const RunRecord& record) {
  std::string text;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    const Bytes budget_bytes = record.budget(tier);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        budget_bytes == 0 ? "no" : format_bytes(budget_bytes) + " of",
                        tier == Tier::kStorage ? "storage"
                        : tier == Tier::kHost  ? "host memory"
                                               : "device memory");
  }
  return text;
}

// Nothing moved, and yet it was not enough.
std::string ran_out_text(const RunRecord& record) {
  return fmt::format(
      "memory ran out: {}; the program had {} at the highest; the limits are {}; nothing moved\n",
      refused_text(record), format_bytes(record.memory.peak_bytes), limits_text(record));
}

std::string enough_text(const RunRecord& record) {
  if (record.memory.fits_in_bytes == 0 || record.memory.refused_allocations > 0) {
    return {};
  }
  const Bytes there_bytes = record.start ? record.start->memory_bytes : 0;
  const bool too_much = there_bytes > 0 && record.memory.fits_in_bytes > there_bytes;
  return fmt::format("  enough     with {} of device memory nothing would have moved{}\n",
                     exact_size(record.memory.fits_in_bytes),
                     too_much ? fmt::format(": there are {}", format_bytes(there_bytes)) : "");
}

}  // namespace

std::string summary_text(const RunRecord& record, std::string_view whose) {
  std::string text = fmt::format("spillway: {}", whose);
  if (record.policy.empty() && record.device.past_budget_peak_bytes > 0) {
    return text + "none of the program's device memory was within the budget\n" +
           past_budget_text(record);
  }
  if (moved_nothing(record)) {
    return text +
           (record.memory.refused_allocations > 0 ? ran_out_text(record) : fits_text(record)) +
           (record.device.past_budget.empty() ? "" : past_budget_text(record));
  }
  const auto moved = [&](Tier from, Tier to) { return format_bytes(record.moved(from, to)); };
  text += fmt::format("{} for {:.1f} s, stalled {:.2f} s ({:.1f} %)\n", record.policy,
                      record.times.elapsed_s, record.times.stalled_s,
                      100 * record.times.stalled_s / std::max(record.times.elapsed_s, 1e-9));
  text += fmt::format("  peak       {} in use at once; the limits are {}\n",
                      format_bytes(record.memory.peak_bytes), limits_text(record));
  if (record.memory.refused_allocations > 0) {
    text += fmt::format("  ran out    {}\n", refused_text(record));
  }
  text += fmt::format("  faults     {} on missing blocks, {} on first writes\n",
                      record.work.page_faults, record.work.write_faults);
  text += fmt::format("  prefetches {} blocks: {} used, {} came too late, {} left again unused\n",
                      record.prefetches.blocks, record.prefetches.used, record.prefetches.late,
                      record.prefetches.wasted);
  text += fmt::format("  moved      {} in from host, {} out; {} in from storage, {} out\n",
                      moved(Tier::kHost, Tier::kDevice), moved(Tier::kDevice, Tier::kHost),
                      moved(Tier::kStorage, Tier::kDevice), moved(Tier::kDevice, Tier::kStorage));
  text += fmt::format("  not moved  {} that were dead\n",
                      format_bytes(record.moves.saved_by_discard_bytes));
  if (record.moves.given_up_bytes > 0) {
    text += fmt::format("  dropped    {}, to be recomputed when needed\n",
                        format_bytes(record.moves.given_up_bytes));
  }
  if (record.moves.host_mapped_bytes > 0) {
    text += fmt::format("  in place   {} used in host memory, over the link\n",
                        format_bytes(record.moves.host_mapped_bytes));
  }
  text += past_budget_text(record);
  text += modules_text(record.waits_by_module);
  const double times = times_moved(
      record.moved(Tier::kHost, Tier::kDevice) + record.moved(Tier::kStorage, Tier::kDevice),
      record.memory.peak_bytes);
  if (times > kThrashes) {
    text += fmt::format(
        "  too little all that was alive was moved in {:.0f} times: give it at least {} of device "
        "memory\n",
        times, format_bytes(needed_bytes(record.budget(Tier::kDevice), record.memory.peak_bytes)));
  }
  return text + (record.plan ? plan_text(*record.plan) : "") + enough_text(record);
}

std::string live_line(const RunRecord& live, std::size_t columns) {
  std::string line;
  const auto& moved = live.moves.bytes;
  if (times_moved(moved[index_of(Tier::kHost)][index_of(Tier::kDevice)] +
                      moved[index_of(Tier::kStorage)][index_of(Tier::kDevice)],
                  live.memory.live_bytes) > kThrashes) {
    // First, as what is too long for the terminal is left out.
    line += fmt::format("needs at least {}  ",
                        format_bytes(needed_bytes(live.memory.budget_bytes[index_of(Tier::kDevice)],
                                                  live.memory.live_bytes)));
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    const Bytes budget_bytes = live.memory.budget_bytes[index_of(tier)];
    const Bytes used_bytes = live.memory.used_bytes[index_of(tier)];
    if (budget_bytes > 0) {
      line += fmt::format("{} [{}] {}  ", name_of(tier),
                          bar(static_cast<double>(used_bytes) / static_cast<double>(budget_bytes)),
                          format_bytes(used_bytes));
    }
  }
  line += fmt::format("faults {}  stalled {:.1f} s", live.work.page_faults, live.times.stalled_s);
  return line.substr(0, columns > 1 ? columns - 1 : 0);
}

}  // namespace spillway
