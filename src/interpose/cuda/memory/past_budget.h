// Device memory that goes past the budget, since the driver gives it to the program itself: counted
// by the call and the library that took it, said while it grows and told at the end.
// Layer: interpose, cuda. docs/interposer.md, "Past the budget".
#pragma once

#include <string_view>

#include "base/units.h"
#include "runtime/record/run_record.h"

namespace spillway::cuda {

// Thread-safe. `caller` is a return address inside the calling library, for its name by dladdr;
// nullptr where it is not known.
void took_past_budget(std::string_view call, Bytes bytes, const void* caller);
void gave_back_past_budget(std::string_view call, Bytes bytes);

// So much more than all that is known does the device have in use by this process, as the driver
// says: taken by calls that nobody has caught.
void unseen_past_budget(Bytes bytes);

// What is so taken now, without what is unseen.
[[nodiscard]] Bytes seen_past_budget_bytes();
// The highest, and who it was by.
void add_past_budget(RunRecord& record);

}  // namespace spillway::cuda
