// What there is to say about a trace in a few lines. Layer: cli.
#pragma once

#include <string>
#include <string_view>

#include "trace/trace.h"

namespace spillway {

// Text for a person, several lines; `name` is what the trace was read from.
[[nodiscard]] std::string trace_info_text(const Trace& trace, std::string_view name);
// The same as one JSON object on one line: sizes in bytes, times in seconds.
[[nodiscard]] std::string trace_info_json(const Trace& trace, std::string_view name);

}  // namespace spillway
