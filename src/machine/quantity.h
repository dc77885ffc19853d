// Times and bandwidths as people write them, and exact text for every quantity of a machine file.
// Layer: machine. Sizes are read by base/units.h.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace spillway {

// "45us", "1.5 ms", "20 ns", "2s": a number and its unit; "0" needs none. Fails with kInvalidInput
// on anything else, on negative times and on times over a day.
[[nodiscard]] Result<TimeNs> parse_time(std::string_view text);

// "15.754 GB/s", "3.2GB/s", "512 MiB/s"; a bare number is bytes a second. Rounded to whole bytes a
// second. Fails with kInvalidInput on anything else.
[[nodiscard]] Result<double> parse_bandwidth(std::string_view text);

// The shortest text that the parsers above and parse_bytes read back as exactly this value.
// `bytes_per_s` is a whole number of bytes below 2^53.
[[nodiscard]] std::string exact_bytes(Bytes bytes);
[[nodiscard]] std::string exact_bandwidth(double bytes_per_s);
[[nodiscard]] std::string exact_time(TimeNs time_ns);

}  // namespace spillway
