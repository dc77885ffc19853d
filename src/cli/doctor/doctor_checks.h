// What `spillway doctor` looks at, a function a group. None of them changes anything.
// Layer: cli.
#pragma once

#include <string>

#include "base/error.h"
#include "cli/doctor/doctor_facts.h"

namespace spillway {

// Runs a small program under `spillway run` on each kind of device that there is: the only test
// that leaves nothing out. The first fact, which is about the device that `spillway run` takes by
// itself, says whether it works.
[[nodiscard]] FactGroup check_trial();
[[nodiscard]] FactGroup check_page_faults();
[[nodiscard]] FactGroup check_machine();
[[nodiscard]] FactGroup check_gpu();
// Of the first GPU and its driver, as the driver tells it; one fact, why not, where there is none.
void add_driver_facts(FactGroup& group);
[[nodiscard]] FactGroup check_python();

// Writes to an unnamed file in the folder and reads it, about a second each.
[[nodiscard]] FactGroup check_storage(const std::string& folder);
// kInvalidInput for what is no folder: a block device's contents would not survive being measured.
[[nodiscard]] Status check_storage_folder(const std::string& folder);

}  // namespace spillway
