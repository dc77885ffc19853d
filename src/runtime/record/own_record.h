// Where a process that `spillway run` has started leaves its record: SPILLWAY_RECORD names the
// folder; without it nowhere. Layer: runtime.
#pragma once

#include <string>

#include "runtime/record/run_recorder.h"

namespace spillway {

// For the recorder of this process; empty for nowhere.
[[nodiscard]] std::string own_live_file();
// Up to now; a later one takes its place. What cannot be written is said in one line.
void write_own_record(RunRecorder& recorder);
// The same of a process without a space.
void write_own_record(RunRecord record);

}  // namespace spillway
