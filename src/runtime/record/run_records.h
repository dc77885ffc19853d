// The folder in which the processes of a run leave their records: what the files are called, and
// all of them read. Layer: runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/record/run_record.h"

namespace spillway {

// Of a process: its record once it has ended, and until then what it shows of itself.
[[nodiscard]] std::string record_file(const std::string& folder, std::int64_t pid);
[[nodiscard]] std::string live_file(const std::string& folder, std::int64_t pid);

struct RunRecords {
  std::vector<RunRecord> all;           // by process, as they were started
  std::vector<std::string> unreadable;  // names of files
};
[[nodiscard]] RunRecords read_run_records(const std::string& folder);

// What a process shows of itself.
struct LiveRecord {
  RunRecord so_far;    // as RunRecorder::so_far() gives it
  bool ended = false;  // or killed
};
// Of each that does; what is not whole is left out.
[[nodiscard]] std::vector<LiveRecord> read_live_records(const std::string& folder);

}  // namespace spillway
