// See reserved_runs.h.
#include "platform/cuda/memory/reserved_runs.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace spillway::cuda {

const ReservedRuns::Runs::value_type* ReservedRuns::run_of(std::uint64_t address) const {
  const auto after = runs_.upper_bound(address);
  if (after == runs_.begin()) {
    return nullptr;
  }
  const auto& run = *std::prev(after);
  return address - run.first < run.second.bytes ? &run : nullptr;
}

ReservedRuns::Runs::value_type* ReservedRuns::run_of(std::uint64_t address) {
  return const_cast<Runs::value_type*>(
      std::as_const(*this).run_of(address));  // NOLINT(*-const-cast)
}

std::optional<ReservedRuns::Run> ReservedRuns::end(std::uint64_t start) {
  const auto found = runs_.find(start);
  if (found == runs_.end()) {
    return std::nullopt;
  }
  found->second.ended = true;
  if (!found->second.taken.empty()) {
    return std::nullopt;
  }
  const Run run{.start = start, .bytes = found->second.bytes};
  runs_.erase(found);
  return run;
}

void ReservedRuns::take(std::uint64_t address, Bytes bytes) {
  run_of(address)->second.taken.emplace(address, bytes);
}

std::optional<ReservedRuns::Run> ReservedRuns::give_back(std::uint64_t address) {
  auto& [start, run] = *run_of(address);
  run.taken.erase(address);
  return run.ended ? end(start) : std::nullopt;
}

bool ReservedRuns::is_free(std::uint64_t address, Bytes bytes) const {
  const Runs::value_type* const run = run_of(address);
  return run != nullptr && bytes <= run->second.bytes - (address - run->first) &&
         within(address, bytes).empty();
}

std::vector<ReservedRuns::Run> ReservedRuns::within(std::uint64_t address, Bytes bytes) const {
  std::vector<Run> found;
  const Runs::value_type* const run = run_of(address);
  if (run == nullptr) {
    return found;
  }
  const auto& taken = run->second.taken;
  auto it = taken.upper_bound(address);
  if (it != taken.begin() && address - std::prev(it)->first < std::prev(it)->second) {
    --it;
  }
  for (; it != taken.end() && (it->first < address || it->first - address < bytes); ++it) {
    found.push_back({.start = it->first, .bytes = it->second});
  }
  return found;
}

std::vector<ReservedRuns::Run> ReservedRuns::beside(std::uint64_t address, const Run& among) const {
  const Runs::value_type* const run = run_of(address);
  if (run == nullptr) {
    return {};
  }
  const std::uint64_t from = std::max(run->first, among.start);
  const std::uint64_t to = std::min(run->first + run->second.bytes, among.start + among.bytes);
  return from < to ? within(from, to - from) : std::vector<Run>();
}

}  // namespace spillway::cuda
