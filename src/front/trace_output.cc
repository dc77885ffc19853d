// From extension to format. Layer: front.
#include "front/trace_output.h"

#include <string>

#include "trace/read.h"

namespace spillway {

Status write_by_name(const Trace& trace, const std::filesystem::path& path) {
  const std::string name = path.string();
  if (name.ends_with(".swt")) {
    return write_trace(trace, path);
  }
  if (name.ends_with(".json") || name.ends_with(".json.gz")) {
    return write_kernel_trace(trace, path);
  }
  return make_error(ErrorCode::kInvalidInput,
                    "{}: the name says no format; end it in .swt, .json or .json.gz", name);
}

}  // namespace spillway
