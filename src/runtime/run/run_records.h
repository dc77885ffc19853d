// The folder in which the processes of a run leave their records: what the files are called, and
// all of them read. Layer: runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/run/run_record.h"

namespace spillway {

// Of a process: its record once it has ended, and until then what it shows of itself.
[[nodiscard]] std::string record_file(const std::string& folder, std::int64_t pid);
[[nodiscard]] std::string live_file(const std::string& folder, std::int64_t pid);

struct RunRecords {
  std::vector<RunRecord> all;           // by process, as they were started
  std::vector<std::string> unreadable;  // names of files
};
[[nodiscard]] RunRecords read_run_records(const std::string& folder);

// Of some process that shows itself; nullopt while none does.
[[nodiscard]] std::optional<LiveRecord> read_live_record(const std::string& folder);

}  // namespace spillway
