// Waits summed by the modules in which launches ran. Layer: runtime.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/common/launch_log.h"

namespace spillway {

// A model's layers differ by number, and a reader wants one line for all of them:
// "transformer.h.12.mlp (backward)" is "transformer.h.*.mlp (backward)". A name that is nothing but
// a number stays.
[[nodiscard]] std::string without_numbers(std::string_view module);

// A row for each such name, longest wait first; those of launches outside of modules are one row,
// "(no module)". Modules that waited for nothing are left out. Empty where no launch's module is
// known.
[[nodiscard]] std::vector<LaunchWaits> waits_by_module(const std::vector<LaunchWaits>& waits);

}  // namespace spillway
