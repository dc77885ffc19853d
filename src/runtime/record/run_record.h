// The record of a run under a space: what it holds and what its fields are called. Everything that
// writes, reads, sums up or draws a record does so from here. Layer: runtime. docs/python.md
// tells people what the fields mean.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "engine/types.h"
#include "runtime/run/program_plan.h"

namespace spillway {

// By tier, and from one tier to another.
using TierBytes = std::array<Bytes, kTierCount>;
using MovedBytes = std::array<TierBytes, kTierCount>;
inline constexpr std::array kRecordTiers{Tier::kDevice, Tier::kHost, Tier::kStorage};

// --- What is recorded ----------------------------------------------------------------------------

// One moment of the run. Bytes that moved, faults and stalls are sums since the start.
struct RunSample {
  double at_s = 0;
  TierBytes used_bytes{};
  Bytes live_bytes = 0;
  MovedBytes moved_bytes{};
  std::uint64_t page_faults = 0;
  double stalled_s = 0;
};

// What the launches of one kind, or in one module, waited for.
struct RunWait {
  std::string name;
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  double wait_s = 0;
  double host_s = 0;
  double storage_s = 0;
  double fresh_s = 0;
};

// Device memory that a program has taken past its budget, by one call and mostly by one library.
struct RunPastBudget {
  std::string call;
  std::string library;  // empty where it is not known
  Bytes peak_bytes = 0;
};

// A size that a run began with, and whose it was: an option ("--host-memory"), a variable
// ("SPILLWAY_HOST_MEMORY"), or "default".
struct RunBudget {
  Bytes bytes = 0;
  std::string from;
};
// The same of a name.
struct RunChoice {
  std::string name;
  std::string from;
};
// What could serve the run, and does not.
struct RunSwitchedOff {
  std::string what;
  std::string why;
};

// What was known before the program began: the first line that a person sees, and what it says.
struct RunStart {
  std::string line;
  std::string version;
  std::string commit;
  RunChoice device;      // "cuda" or "host"
  std::string gpu;       // its name; empty on the host
  Bytes memory_bytes{};  // that the device has in all
  RunBudget device_memory;
  RunBudget host_memory;
  Bytes pinned_at_most_bytes = 0;  // of host memory
  RunChoice storage;               // the path; empty: none
  Bytes storage_bytes = 0;         // 0: what there is
  RunChoice policy;
  RunChoice near_optimizer;  // "on" or "off"
  std::vector<RunSwitchedOff> switched_off;
  std::vector<std::string> without_effect;  // what was set and changes nothing, a line each
};

struct RunRecord {
  static constexpr std::uint64_t kVersion = 1;

  std::uint64_t version = kVersion;
  std::string command;
  std::uint64_t pid = 0;
  std::optional<RunStart> start;  // of the run, as its command knows it
  std::string policy;
  TierBytes budget_bytes{};
  double elapsed_s = 0;
  Bytes peak_bytes = 0;
  Bytes fits_in_bytes = 0;  // of device memory: with so much nothing would have moved
  TierBytes used_bytes{};
  Bytes live_bytes = 0;
  std::uint64_t refused_allocations = 0;  // for which no tier had room
  Bytes refused_largest_bytes = 0;
  std::uint64_t page_faults = 0;
  std::uint64_t write_faults = 0;
  std::uint64_t launches = 0;
  std::uint64_t updates = 0;  // launches that ran at the host, next to their data
  std::uint64_t prefetched_blocks = 0;
  std::uint64_t prefetches_used = 0;
  std::uint64_t prefetches_late = 0;
  std::uint64_t prefetches_wasted = 0;
  std::uint64_t evictions = 0;
  std::uint64_t pre_evictions = 0;  // blocks
  // What the program itself has named in prefetches and pre-evictions (python/spillway/autovm).
  Bytes asked_prefetch_bytes = 0;
  Bytes asked_pre_evict_bytes = 0;
  MovedBytes moved_bytes{};
  Bytes saved_by_discard_bytes = 0;
  Bytes given_up_bytes = 0;
  Bytes host_mapped_bytes = 0;
  Bytes past_budget_peak_bytes = 0;
  std::vector<RunPastBudget> past_budget;  // most first
  Bytes device_in_use_peak_bytes = 0;      // by this process; 0 where the driver does not tell
  Bytes device_growth_peak_bytes = 0;      // then by all processes, beyond what it was at first
  double stalled_s = 0;
  double fault_wait_s = 0;
  double copy_s = 0;
  double processor_s = 0;
  std::optional<PlanReport> plan;
  std::vector<std::string> said;  // on a GPU, while it ran: what went otherwise than asked
  std::vector<RunWait> longest_waits;
  std::vector<RunWait> waits_by_module;  // empty where no module is known
  std::vector<RunSample> timeline;       // to the end of the run

  [[nodiscard]] Bytes budget(Tier tier) const { return budget_bytes[index_of(tier)]; }
  [[nodiscard]] Bytes moved(Tier from, Tier to) const {
    return moved_bytes[index_of(from)][index_of(to)];
  }
};

// --- What it is called ---------------------------------------------------------------------------

// Between these tiers data moves; what moved_bytes has a number of.
struct Route {
  Tier from;
  Tier to;
  const char* key;
  const char* caption;
};
inline constexpr std::array kRoutes{
    Route{Tier::kHost, Tier::kDevice, "host_to_device", "host to device memory"},
    Route{Tier::kDevice, Tier::kHost, "device_to_host", "device to host memory"},
    Route{Tier::kStorage, Tier::kDevice, "storage_to_device", "storage to device memory"},
    Route{Tier::kDevice, Tier::kStorage, "device_to_storage", "device memory to storage"},
    Route{Tier::kHost, Tier::kStorage, "host_to_storage", "host memory to storage"},
    Route{Tier::kStorage, Tier::kHost, "storage_to_host", "storage to host memory"},
};

// A member and its key; times of type TimeNs are written as seconds. One with a caption is among
// the numbers of the report.
template <typename Member>
struct Field {
  const char* key;
  Member member;
  const char* caption = nullptr;
};
template <typename Member>
Field(const char*, Member) -> Field<Member>;
template <typename Member>
Field(const char*, Member, const char*) -> Field<Member>;

template <typename Record>
inline constexpr std::tuple<> kFields{};

template <>
inline constexpr std::tuple kFields<RunSample>{
    Field{"at_s", &RunSample::at_s},
    Field{"used_bytes", &RunSample::used_bytes},
    Field{"live_bytes", &RunSample::live_bytes},
    Field{"moved_bytes", &RunSample::moved_bytes},
    Field{"page_faults", &RunSample::page_faults},
    Field{"stalled_s", &RunSample::stalled_s},
};

template <>
inline constexpr std::tuple kFields<RunWait>{
    Field{"name", &RunWait::name},
    Field{"launches", &RunWait::launches},
    Field{"blocks", &RunWait::blocks},
    Field{"wait_s", &RunWait::wait_s},
    Field{"for_host_memory_s", &RunWait::host_s},
    Field{"for_storage_s", &RunWait::storage_s},
    Field{"for_new_memory_s", &RunWait::fresh_s},
};

template <>
inline constexpr std::tuple kFields<RunPastBudget>{
    Field{"call", &RunPastBudget::call},
    Field{"library", &RunPastBudget::library},
    Field{"peak_bytes", &RunPastBudget::peak_bytes},
};

template <>
inline constexpr std::tuple kFields<RunBudget>{
    Field{"bytes", &RunBudget::bytes},
    Field{"from", &RunBudget::from},
};

template <>
inline constexpr std::tuple kFields<RunChoice>{
    Field{"name", &RunChoice::name},
    Field{"from", &RunChoice::from},
};

template <>
inline constexpr std::tuple kFields<RunSwitchedOff>{
    Field{"what", &RunSwitchedOff::what},
    Field{"why", &RunSwitchedOff::why},
};

template <>
inline constexpr std::tuple kFields<RunStart>{
    Field{"line", &RunStart::line},
    Field{"version", &RunStart::version},
    Field{"commit", &RunStart::commit},
    Field{"device", &RunStart::device},
    Field{"gpu", &RunStart::gpu},
    Field{"memory_bytes", &RunStart::memory_bytes},
    Field{"device_memory", &RunStart::device_memory},
    Field{"host_memory", &RunStart::host_memory},
    Field{"pinned_at_most_bytes", &RunStart::pinned_at_most_bytes},
    Field{"storage", &RunStart::storage},
    Field{"storage_bytes", &RunStart::storage_bytes},
    Field{"policy", &RunStart::policy},
    Field{"near_optimizer", &RunStart::near_optimizer},
    Field{"switched_off", &RunStart::switched_off},
    Field{"without_effect", &RunStart::without_effect},
};

template <>
inline constexpr std::tuple kFields<PlanReport>{
    Field{"number", &PlanReport::number},
    Field{"launches", &PlanReport::launches},
    Field{"tensors", &PlanReport::tensors},
    Field{"peak_bytes", &PlanReport::peak_bytes},
    Field{"to_host_bytes", &PlanReport::to_host_bytes},
    Field{"to_storage_bytes", &PlanReport::to_storage_bytes},
    Field{"computation_s", &PlanReport::computation_ns},
    Field{"estimated_s", &PlanReport::estimated_ns},
    Field{"error", &PlanReport::error},
};

template <>
inline constexpr std::tuple kFields<RunRecord>{
    Field{"version", &RunRecord::version},
    Field{"command", &RunRecord::command},
    Field{"pid", &RunRecord::pid},
    Field{"start", &RunRecord::start},
    Field{"policy", &RunRecord::policy},
    Field{"budget_bytes", &RunRecord::budget_bytes},
    Field{"elapsed_s", &RunRecord::elapsed_s},
    Field{"peak_bytes", &RunRecord::peak_bytes},
    Field{"fits_in_bytes", &RunRecord::fits_in_bytes},
    Field{"used_bytes", &RunRecord::used_bytes},
    Field{"live_bytes", &RunRecord::live_bytes},
    Field{"refused_allocations", &RunRecord::refused_allocations, "allocations refused"},
    Field{"refused_largest_bytes", &RunRecord::refused_largest_bytes},
    Field{"page_faults", &RunRecord::page_faults, "faults on missing blocks"},
    Field{"write_faults", &RunRecord::write_faults, "faults on first writes"},
    Field{"launches", &RunRecord::launches, "launches"},
    Field{"updates", &RunRecord::updates, "updates next to their data"},
    Field{"prefetched_blocks", &RunRecord::prefetched_blocks, "blocks prefetched"},
    Field{"prefetches_used", &RunRecord::prefetches_used, "of them used"},
    Field{"prefetches_late", &RunRecord::prefetches_late, "needed while on their way"},
    Field{"prefetches_wasted", &RunRecord::prefetches_wasted, "left again unused"},
    Field{"evictions", &RunRecord::evictions, "evictions"},
    Field{"pre_evictions", &RunRecord::pre_evictions},
    Field{"asked_prefetch_bytes", &RunRecord::asked_prefetch_bytes},
    Field{"asked_pre_evict_bytes", &RunRecord::asked_pre_evict_bytes},
    Field{"moved_bytes", &RunRecord::moved_bytes},
    Field{"saved_by_discard_bytes", &RunRecord::saved_by_discard_bytes,
          "not moved, since it was dead"},
    Field{"given_up_bytes", &RunRecord::given_up_bytes, "given up, to be made again"},
    Field{"far_bytes", &RunRecord::host_mapped_bytes, "used in host memory, over the link"},
    Field{"past_budget_peak_bytes", &RunRecord::past_budget_peak_bytes},
    Field{"past_budget", &RunRecord::past_budget},
    Field{"device_in_use_peak_bytes", &RunRecord::device_in_use_peak_bytes},
    Field{"device_growth_peak_bytes", &RunRecord::device_growth_peak_bytes},
    Field{"stalled_s", &RunRecord::stalled_s},
    Field{"fault_wait_s", &RunRecord::fault_wait_s},
    Field{"copy_s", &RunRecord::copy_s},
    Field{"processor_s", &RunRecord::processor_s},
    Field{"plan", &RunRecord::plan},
    Field{"said", &RunRecord::said},
    Field{"longest_waits", &RunRecord::longest_waits},
    Field{"waits_by_module", &RunRecord::waits_by_module},
    Field{"timeline", &RunRecord::timeline},
};

// visit(field), each.
template <typename Record, typename Visit>
void for_each_field(Visit visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, kFields<Record>);
}

// --- As text -------------------------------------------------------------------------------------

// JSON on one line. Text that is not UTF-8, which names of programs may hold, is mended.
[[nodiscard]] std::string to_json(const RunRecord& record);
// The same, for callers who bring the room: as much as fits in `bytes`, ended with 0 (nothing where
// that is 0). How long all of it is, without the 0.
std::size_t copy_json(const RunRecord& record, char* to, std::size_t bytes);

// A field that is missing or of another type reads as nothing; what is no record at all, or one of
// another version, is nullopt.
[[nodiscard]] std::optional<RunRecord> parse_run_record(const std::string& json);

}  // namespace spillway
