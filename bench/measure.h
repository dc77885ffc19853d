// What the benchmarks of the host platform share: a clock, quantiles, sizes as options, and a main
// that turns wrong usage and errors into exit statuses.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace spillway::bench {

inline constexpr double kBytesInMB = 1e6;

[[nodiscard]] inline TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[nodiscard]] inline double per_s(double amount, TimeNs duration_ns) {
  return duration_ns > 0 ? amount / to_seconds(duration_ns) : 0;
}

// The value below which `fraction` of the sample lies; 0 for an empty one.
[[nodiscard]] inline double quantile_of(std::vector<double> sample, double fraction) {
  if (sample.empty()) {
    return 0;
  }
  const auto at = static_cast<std::ptrdiff_t>(fraction * static_cast<double>(sample.size() - 1));
  std::nth_element(sample.begin(), sample.begin() + at, sample.end());
  return sample[static_cast<std::size_t>(at)];
}

[[nodiscard]] inline double median_of(std::vector<double> sample) {
  return quantile_of(std::move(sample), 0.5);
}

// An option such as "512MiB".
inline void add_bytes_option(CLI::App& app, const std::string& name, Bytes& bytes,
                             const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&bytes](const std::string& text) {
           const Result<Bytes> parsed = parse_bytes(text);
           if (!parsed) {
             throw CLI::ValidationError(parsed.error().message);
           }
           bytes = *parsed;
         },
         help + ", by default " + format_bytes(bytes))
      ->type_name("SIZE");
}

// Parses and runs: status 2 for options that are wrong, 1 and a line for what went wrong later.
[[nodiscard]] inline int main_of(CLI::App& app, int argc, char** argv,
                                 const std::function<Status()>& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (const Status done = run(); !done) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), done.error().message.c_str());
    return done.error().code == ErrorCode::kInvalidInput ? 2 : 1;
  }
  return 0;
}

// The whole of a main: `body`, and status 1 for what it throws, in the first place for lack of
// memory.
[[nodiscard]] inline int guarded(int (*body)(int, char**), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace spillway::bench
