// Times, bandwidths and exact text for quantities. Layer: machine.
#include "machine/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace spillway {
namespace {

constexpr std::array<std::pair<std::string_view, TimeNs>, 4> kTimeUnits{
    {{"s", kNsPerS}, {"ms", kNsPerMs}, {"us", kNsPerUs}, {"ns", 1}}};

constexpr std::array<std::pair<std::string_view, Bytes>, 8> kSizeUnits{{{"TiB", kTiB},
                                                                        {"TB", 1'000'000'000'000},
                                                                        {"GiB", kGiB},
                                                                        {"GB", 1'000'000'000},
                                                                        {"MiB", kMiB},
                                                                        {"MB", 1'000'000},
                                                                        {"KiB", kKiB},
                                                                        {"B", 1}}};

constexpr double kLongestTimeNs = 24.0 * 3600.0 * 1e9;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

Result<TimeNs> parse_time(std::string_view text) {
  std::string_view rest = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    return make_error(ErrorCode::kInvalidInput, "'{}' is not a time; write for example 45us", text);
  }
  rest = trimmed(rest.substr(static_cast<std::size_t>(end - rest.data())));
  if (rest.empty() && number == 0) {
    return 0;
  }
  for (const auto& [unit, unit_ns] : kTimeUnits) {
    if (rest == unit) {
      const double time_ns = number * static_cast<double>(unit_ns);
      if (time_ns > kLongestTimeNs) {
        return make_error(ErrorCode::kInvalidInput, "'{}' is longer than a day", text);
      }
      return static_cast<TimeNs>(std::llround(time_ns));
    }
  }
  return make_error(ErrorCode::kInvalidInput, "'{}' needs a unit of time: ns, us, ms or s", text);
}

Result<double> parse_bandwidth(std::string_view text) {
  std::string_view size = trimmed(text);
  if (size.ends_with("/s")) {
    size.remove_suffix(2);
  }
  return parse_bytes(size)
      .map([](Bytes bytes) { return static_cast<double>(bytes); })
      .map_error([text](const Error& error) {
        return Error{error.code,
                     fmt::format("'{}' is not a bandwidth; write for example 15.754 GB/s", text)};
      });
}

std::string exact_bytes(Bytes bytes) {
  std::string shortest = fmt::format("{}B", bytes);
  for (const auto& [unit, unit_bytes] : kSizeUnits) {
    if (bytes % unit_bytes == 0) {
      std::string candidate = fmt::format("{}{}", bytes / unit_bytes, unit);
      if (candidate.size() < shortest.size()) {
        shortest = std::move(candidate);
      }
    }
  }
  return shortest;
}

std::string exact_bandwidth(double bytes_per_s) {
  if (bytes_per_s == 0) {
    return "0";
  }
  // Decimal units: a bandwidth of whole bytes below 2^53 keeps all its digits in "{}".
  const double scale = bytes_per_s < 1e9 ? 1e6 : 1e9;
  const std::string text =
      fmt::format("{} {}/s", bytes_per_s / scale, bytes_per_s < 1e9 ? "MB" : "GB");
  const Result<double> back = parse_bandwidth(text);
  return back && *back == bytes_per_s ? text : fmt::format("{:.0f} B/s", bytes_per_s);
}

std::string exact_time(TimeNs time_ns) {
  for (const auto& [unit, unit_ns] : kTimeUnits) {
    if (time_ns % unit_ns == 0 && time_ns != 0) {
      return fmt::format("{}{}", time_ns / unit_ns, unit);
    }
  }
  return "0";
}

}  // namespace spillway
