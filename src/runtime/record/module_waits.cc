// See module_waits.h.
#include "runtime/record/module_waits.h"

#include <algorithm>
#include <map>

namespace spillway {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of(kDigits) == std::string_view::npos;
}

void add(LaunchWaits& sum, const LaunchWaits& waits) {
  sum.launches += waits.launches;
  sum.blocks += waits.blocks;
  sum.wait_ns += waits.wait_ns;
  sum.host_ns += waits.host_ns;
  sum.storage_ns += waits.storage_ns;
  sum.fresh_ns += waits.fresh_ns;
}

}  // namespace

std::string without_numbers(std::string_view module) {
  const std::size_t path_end = std::min(module.find(' '), module.size());
  const std::string_view path = module.substr(0, path_end);
  if (is_number(path)) {
    return std::string(module);
  }
  std::string folded;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t to = std::min(path.find('.', from), path.size());
    const std::string_view part = path.substr(from, to - from);
    folded += from > 0 ? "." : "";
    folded += is_number(part) ? "*" : part;
    from = to + 1;
  }
  return folded.append(module.substr(path_end));
}

std::vector<LaunchWaits> waits_by_module(const std::vector<LaunchWaits>& waits) {
  if (std::all_of(waits.begin(), waits.end(),
                  [](const LaunchWaits& row) { return row.module.empty(); })) {
    return {};
  }
  std::map<std::string, LaunchWaits> sums;
  for (const LaunchWaits& row : waits) {
    add(sums[row.module.empty() ? "(no module)" : without_numbers(row.module)], row);
  }
  std::vector<LaunchWaits> rows;
  for (auto& [name, sum] : sums) {
    if (sum.wait_ns > 0) {
      sum.name = name;
      rows.push_back(std::move(sum));
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const LaunchWaits& a, const LaunchWaits& b) {
    return a.wait_ns > b.wait_ns;
  });
  return rows;
}

}  // namespace spillway
