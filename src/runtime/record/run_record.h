// The record of a run under a space: what it holds (what its fields are called is run_fields.h's).
// Everything that writes, reads, sums up or draws a record does so from here. Layer: runtime.
// docs/python.md tells people what the fields mean.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
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

// What the program's memory was. By tier: what is, unless something else is said.
struct RunMemory {
  TierBytes budget_bytes{};
  Bytes peak_bytes = 0;
  Bytes fits_in_bytes = 0;  // of device memory: with so much nothing would have moved
  TierBytes used_bytes{};
  Bytes live_bytes = 0;
  std::uint64_t refused_allocations = 0;  // for which no tier had room
  Bytes refused_largest_bytes = 0;
};

// What was asked of the memory.
struct RunWork {
  std::uint64_t page_faults = 0;
  std::uint64_t write_faults = 0;
  std::uint64_t launches = 0;
  std::uint64_t updates = 0;  // launches that ran at the host, next to their data
};

// What came of blocks that were fetched ahead of need.
struct RunPrefetches {
  std::uint64_t blocks = 0;
  std::uint64_t used = 0;
  std::uint64_t late = 0;
  std::uint64_t wasted = 0;
};

// What moved, and what did not have to.
struct RunMoves {
  std::uint64_t evictions = 0;
  std::uint64_t pre_evictions = 0;  // blocks
  // What the program itself has named in prefetches and pre-evictions (python/spillway/autovm).
  Bytes asked_prefetch_bytes = 0;
  Bytes asked_pre_evict_bytes = 0;
  MovedBytes bytes{};
  Bytes saved_by_discard_bytes = 0;
  Bytes given_up_bytes = 0;
  Bytes host_mapped_bytes = 0;
};

// Device memory that is not the space's, or all of it.
struct RunDeviceUse {
  Bytes past_budget_peak_bytes = 0;
  std::vector<RunPastBudget> past_budget;  // most first
  Bytes in_use_peak_bytes = 0;             // by this process; 0 where the driver does not tell
  Bytes growth_peak_bytes = 0;             // then by all processes, beyond what it was at first
};

struct RunTimes {
  double elapsed_s = 0;
  double stalled_s = 0;
  double fault_wait_s = 0;
  double copy_s = 0;
  double processor_s = 0;
};

struct RunRecord {
  static constexpr std::uint64_t kVersion = 1;

  std::uint64_t version = kVersion;
  std::string command;
  std::uint64_t pid = 0;
  std::optional<RunStart> start;  // of the run, as its command knows it
  std::string policy;
  RunMemory memory;
  RunWork work;
  RunPrefetches prefetches;
  RunMoves moves;
  RunDeviceUse device;
  RunTimes times;
  std::optional<PlanReport> plan;
  std::vector<std::string> said;  // on a GPU, while it ran: what went otherwise than asked
  std::vector<RunWait> longest_waits;
  std::vector<RunWait> waits_by_module;  // empty where no module is known
  std::vector<RunSample> timeline;       // to the end of the run

  [[nodiscard]] Bytes budget(Tier tier) const { return memory.budget_bytes[index_of(tier)]; }
  [[nodiscard]] Bytes moved(Tier from, Tier to) const {
    return moves.bytes[index_of(from)][index_of(to)];
  }
};

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
