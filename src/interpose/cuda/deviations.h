// What goes otherwise than it was asked for: said in a line, and kept for the record. Layer:
// interpose, cuda. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/run/space_options.h"

namespace spillway::cuda {

void say_and_keep(std::string_view line);
// What was said so, up to a hundred lines.
[[nodiscard]] std::vector<std::string> kept_lines();

// Without an option the budget is what is free, of which others may have taken much. `options` have
// it by now.
void tell_of_others(const SpaceOptions& options, Bytes free_bytes, Bytes total_bytes, int device);
// Behind load_own_kernels, in its context: the one that recomputation needs may not load.
void tell_without_recomputation(const SpaceOptions& options);

}  // namespace spillway::cuda
