// From extension to format. Layer: cli.
#include "cli/trace/trace_output.h"

#include <string>

#include "trace/read.h"

namespace spillway {

Status check_trace_name(const std::string& name) {
  if (name.ends_with(".swt") || name.ends_with(".json") || name.ends_with(".json.gz")) {
    return {};
  }
  return make_error(ErrorCode::kInvalidInput,
                    "{}: the name says no format; end it in .swt, .json or .json.gz", name);
}

Status write_by_name(const Trace& trace, const std::filesystem::path& path) {
  const std::string name = path.string();
  if (Status named = check_trace_name(name); !named) {
    return named;
  }
  return name.ends_with(".swt") ? write_trace(trace, path) : write_kernel_trace(trace, path);
}

}  // namespace spillway
