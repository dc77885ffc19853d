// Reading and writing sizes and times as people write them.
#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace spillway {
namespace {

constexpr double kLargestBytes = 1152921504606846976.0;  // 2^60: beyond any machine described here

constexpr std::array<std::pair<std::string_view, double>, 16> kSuffixes{{
    {"", 1.0},
    {"B", 1.0},
    {"K", 1024.0},
    {"KiB", 1024.0},
    {"KB", 1e3},
    {"kB", 1e3},
    {"M", 1048576.0},
    {"MiB", 1048576.0},
    {"MB", 1e6},
    {"G", 1073741824.0},
    {"GiB", 1073741824.0},
    {"GB", 1e9},
    {"T", 1099511627776.0},
    {"TiB", 1099511627776.0},
    {"TB", 1e12},
    {"PiB", 1125899906842624.0},
}};

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const std::string_view whole = text;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    return make_error(ErrorCode::kInvalidInput, "'{}' is not a size; write for example 40GiB",
                      whole);
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  for (const auto& [suffix, factor] : kSuffixes) {
    if (text == suffix) {
      if (number * factor > kLargestBytes) {
        return make_error(ErrorCode::kInvalidInput, "'{}' is larger than any machine", whole);
      }
      return static_cast<Bytes>(std::llround(number * factor));
    }
  }
  return make_error(ErrorCode::kInvalidInput,
                    "'{}' has an unknown unit; use B, KiB, MiB, GiB, TiB, PiB or kB, MB, GB, TB",
                    whole);
}

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, kUnits.at(unit));
}

std::string format_time(TimeNs time_ns) {
  const double seconds = to_seconds(time_ns);
  const double magnitude = std::fabs(seconds);
  if (magnitude >= 1.0 || time_ns == 0) {
    return fmt::format("{:.4g} s", seconds);
  }
  if (magnitude >= 1e-3) {
    return fmt::format("{:.3g} ms", seconds * 1e3);
  }
  if (magnitude >= 1e-6) {
    return fmt::format("{:.3g} us", seconds * 1e6);
  }
  return fmt::format("{} ns", time_ns);
}

}  // namespace spillway
