// See nearest_name.h.
#include "cli/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace spillway {
namespace {

// How many letters must be put in, taken out or changed.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t kNear = 4;
  const auto nearest = std::min_element(names.begin(), names.end(), [&](auto a, auto b) {
    return distance(name, a) < distance(name, b);
  });
  // Of a short name little is left when a few letters are changed.
  const bool near =
      nearest != names.end() &&
      distance(name, *nearest) <= std::min(kNear, std::max<std::size_t>(name.size() / 2, 1));
  return near ? *nearest : std::string_view();
}

}  // namespace spillway
