// Writing a trace in the format that the file's name asks for. Layer: cli.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// .swt: native. .json and .json.gz: kernel-trace/1. Anything else is kInvalidInput; so is a trace
// that is not valid.
[[nodiscard]] Status write_by_name(const Trace& trace, const std::filesystem::path& path);
// The same of the name alone, before there is a trace.
[[nodiscard]] Status check_trace_name(const std::string& name);

}  // namespace spillway
