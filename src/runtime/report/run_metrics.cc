// See run_metrics.h.
#include "runtime/report/run_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "runtime/record/run_fields.h"

namespace spillway {
namespace {

enum class Kind : std::uint8_t {
  kCounter,  // stays when its process has ended
  kGauge,    // is as of now
};

template <typename Member>
struct Metric {
  const char* name;
  Kind kind;
  Member member;
  const char* help;
};
template <typename Member>
Metric(const char*, Kind, Member, const char*) -> Metric<Member>;

// Names as Prometheus has them: base units, and `_total` for what only grows.
constexpr std::tuple kMetrics{
    Metric{"memory_budget_bytes", Kind::kGauge,
           InGroup{&RunRecord::memory, &RunMemory::budget_bytes}, "What each tier may hold."},
    Metric{"memory_used_bytes", Kind::kGauge, InGroup{&RunRecord::memory, &RunMemory::used_bytes},
           "What is in each tier."},
    Metric{"allocated_bytes", Kind::kGauge, InGroup{&RunRecord::memory, &RunMemory::live_bytes},
           "What the program has allocated and not freed, wherever it is."},
    Metric{"allocated_peak_bytes", Kind::kGauge,
           InGroup{&RunRecord::memory, &RunMemory::peak_bytes},
           "The most that was allocated at once."},
    Metric{"fits_in_bytes", Kind::kGauge, InGroup{&RunRecord::memory, &RunMemory::fits_in_bytes},
           "Device memory with which nothing would have moved; 0 where that is not known."},
    Metric{"refused_largest_bytes", Kind::kGauge,
           InGroup{&RunRecord::memory, &RunMemory::refused_largest_bytes},
           "The largest allocation for which no tier had room."},
    Metric{"past_budget_peak_bytes", Kind::kGauge,
           InGroup{&RunRecord::device, &RunDeviceUse::past_budget_peak_bytes},
           "Device memory taken past the budget, at the highest."},
    Metric{"device_in_use_peak_bytes", Kind::kGauge,
           InGroup{&RunRecord::device, &RunDeviceUse::in_use_peak_bytes},
           "Device memory of this process as its driver tells it, at the highest; 0 where it does "
           "not."},
    Metric{"device_growth_peak_bytes", Kind::kGauge,
           InGroup{&RunRecord::device, &RunDeviceUse::growth_peak_bytes},
           "Where processes are not told apart: what all of them took since the start, at the "
           "highest."},
    Metric{"elapsed_seconds_total", Kind::kCounter,
           InGroup{&RunRecord::times, &RunTimes::elapsed_s}, "Time since the first allocation."},
    Metric{"stalled_seconds_total", Kind::kCounter,
           InGroup{&RunRecord::times, &RunTimes::stalled_s},
           "Time in which at least one thread was stopped until its data was there."},
    Metric{"fault_wait_seconds_total", Kind::kCounter,
           InGroup{&RunRecord::times, &RunTimes::fault_wait_s}, "The same, summed over threads."},
    Metric{"copy_seconds_total", Kind::kCounter, InGroup{&RunRecord::times, &RunTimes::copy_s},
           "Time that Spillway's threads spent copying."},
    Metric{"processor_seconds_total", Kind::kCounter,
           InGroup{&RunRecord::times, &RunTimes::processor_s},
           "Time that Spillway's threads ran on a processor."},
    Metric{"moved_bytes_total", Kind::kCounter, InGroup{&RunRecord::moves, &RunMoves::bytes},
           "Data moved from one tier to another."},
    Metric{"discarded_bytes_total", Kind::kCounter,
           InGroup{&RunRecord::moves, &RunMoves::saved_by_discard_bytes},
           "Data that did not have to move because it was dead."},
    Metric{"given_up_bytes_total", Kind::kCounter,
           InGroup{&RunRecord::moves, &RunMoves::given_up_bytes},
           "Data given up because a launch can make it again."},
    Metric{"far_bytes_total", Kind::kCounter,
           InGroup{&RunRecord::moves, &RunMoves::host_mapped_bytes},
           "Data that launches use in host memory instead of its being moved."},
    Metric{"refused_allocations_total", Kind::kCounter,
           InGroup{&RunRecord::memory, &RunMemory::refused_allocations},
           "Allocations for which no tier had room."},
    Metric{"launches_total", Kind::kCounter, InGroup{&RunRecord::work, &RunWork::launches},
           "Kernels or operators that were seen."},
    Metric{"updates_total", Kind::kCounter, InGroup{&RunRecord::work, &RunWork::updates},
           "Updates of optimizers that ran in host memory, next to their data."},
    Metric{"page_faults_total", Kind::kCounter, InGroup{&RunRecord::work, &RunWork::page_faults},
           "Threads that stopped at a block that was not in device memory."},
    Metric{"write_faults_total", Kind::kCounter, InGroup{&RunRecord::work, &RunWork::write_faults},
           "Threads that stopped at a block that was, to write it for the first time."},
    Metric{"prefetched_blocks_total", Kind::kCounter,
           InGroup{&RunRecord::prefetches, &RunPrefetches::blocks},
           "Blocks that were asked for before they were needed."},
    Metric{"prefetches_used_total", Kind::kCounter,
           InGroup{&RunRecord::prefetches, &RunPrefetches::used},
           "Of these, blocks that were used."},
    Metric{"prefetches_late_total", Kind::kCounter,
           InGroup{&RunRecord::prefetches, &RunPrefetches::late},
           "Blocks that were needed while on their way."},
    Metric{"prefetches_wasted_total", Kind::kCounter,
           InGroup{&RunRecord::prefetches, &RunPrefetches::wasted},
           "Blocks that left again unused."},
    Metric{"evictions_total", Kind::kCounter, InGroup{&RunRecord::moves, &RunMoves::evictions},
           "Blocks that left device memory."},
    Metric{"pre_evictions_total", Kind::kCounter,
           InGroup{&RunRecord::moves, &RunMoves::pre_evictions},
           "Blocks that were copied down ahead of need."},
    Metric{"asked_prefetch_bytes_total", Kind::kCounter,
           InGroup{&RunRecord::moves, &RunMoves::asked_prefetch_bytes},
           "What the program itself has named in prefetches."},
    Metric{"asked_pre_evict_bytes_total", Kind::kCounter,
           InGroup{&RunRecord::moves, &RunMoves::asked_pre_evict_bytes},
           "What the program itself has named in pre-evictions."},
};

// Appends families to a text.
class Families {
 public:
  Families(std::string& text, const std::vector<LiveRecord>& processes)
      : text_(text), processes_(processes) {}

  template <typename Member>
  void add(const Metric<Member>& metric) {
    begin(metric.name, metric.kind, metric.help);
    for (const LiveRecord& process : processes_) {
      if (metric.kind == Kind::kCounter || !process.ended) {
        samples(process.so_far, metric.name, value_of(process.so_far, metric.member));
      }
    }
  }
  void begin(std::string_view name, Kind kind, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP spillway_{0} {1}\n# TYPE spillway_{0} {2}\n",
                   name, help, kind == Kind::kCounter ? "counter" : "gauge");
  }
  template <typename Number>
  void sample(const RunRecord& of, std::string_view name, Number number,
              const std::string& labels = {}) {
    fmt::format_to(std::back_inserter(text_), "spillway_{}{{pid=\"{}\"{}}} {}\n", name, of.pid,
                   labels, number);
  }

 private:
  void samples(const RunRecord& of, std::string_view name, std::uint64_t count) {
    sample(of, name, count);
  }
  void samples(const RunRecord& of, std::string_view name, double seconds) {
    sample(of, name, seconds);
  }
  void samples(const RunRecord& of, std::string_view name, const TierBytes& bytes) {
    for (const Tier tier : kRecordTiers) {
      sample(of, name, bytes[index_of(tier)], fmt::format(",tier=\"{}\"", name_of(tier)));
    }
  }
  void samples(const RunRecord& of, std::string_view name, const MovedBytes& bytes) {
    for (const Route& route : kRoutes) {
      sample(of, name, bytes[index_of(route.from)][index_of(route.to)],
             fmt::format(",from=\"{}\",to=\"{}\"", name_of(route.from), name_of(route.to)));
    }
  }

  std::string& text_;
  const std::vector<LiveRecord>& processes_;
};

}  // namespace

std::string metrics_text(const std::vector<LiveRecord>& processes) {
  std::string text;
  Families families(text, processes);
  families.begin("process_running", Kind::kGauge,
                 "Processes with a budget: 1 while one runs, 0 once it has ended.");
  for (const LiveRecord& process : processes) {
    families.sample(process.so_far, "process_running", process.ended ? 0 : 1,
                    fmt::format(",policy=\"{}\"", process.so_far.policy));
  }
  std::apply([&](const auto&... metrics) { (families.add(metrics), ...); }, kMetrics);
  return text;
}

}  // namespace spillway
