// What there is to say about a trace in a few lines. Layer: cli.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/trace.h"

namespace spillway {

// "gpt2, batch size 8", or the model alone if its batch is not known, which is 0.
[[nodiscard]] std::string model_and_batch(const std::string& model, std::uint64_t batch_size);
// Text for a person, several lines; `name` is what the trace was read from.
[[nodiscard]] std::string trace_info_text(const Trace& trace, std::string_view name);
// The same as one JSON object on one line: sizes in bytes, times in seconds.
[[nodiscard]] std::string trace_info_json(const Trace& trace, std::string_view name);

}  // namespace spillway
