// See run_records.h.
#include "runtime/record/run_records.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRecord = ".json";
constexpr std::string_view kLive = ".live";

std::vector<fs::path> files(const std::string& folder, std::string_view extension) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == extension) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string record_file(const std::string& folder, std::int64_t pid) {
  return fmt::format("{}/{}{}", folder, pid, kRecord);
}

std::string live_file(const std::string& folder, std::int64_t pid) {
  return fmt::format("{}/{}{}", folder, pid, kLive);
}

RunRecords read_run_records(const std::string& folder) {
  RunRecords records;
  for (const fs::path& path : files(folder, kRecord)) {
    if (std::optional<RunRecord> record = parse_run_record(text_in(path))) {
      records.all.push_back(std::move(*record));
    } else {
      records.unreadable.push_back(path.filename().string());
    }
  }
  // A process that was ended by a signal leaves what it showed last.
  for (LiveRecord& live : read_live_records(folder)) {
    std::error_code error;
    if (live.ended &&
        !fs::exists(record_file(folder, static_cast<std::int64_t>(live.so_far.pid)), error)) {
      records.all.push_back(std::move(live.so_far));
    }
  }
  std::sort(records.all.begin(), records.all.end(),
            [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return records;
}

std::vector<LiveRecord> read_live_records(const std::string& folder) {
  std::vector<LiveRecord> all;
  for (fs::path path : files(folder, kLive)) {
    if (std::optional<RunRecord> record = parse_run_record(text_in(path))) {
      // A process that has become another program by exec shows itself again, after its record. A
      // process that was killed leaves no record.
      const auto pid = static_cast<pid_t>(record->pid);
      std::error_code no_live;
      std::error_code no_record;
      const fs::file_time_type shown = fs::last_write_time(path, no_live);
      const fs::file_time_type left =
          fs::last_write_time(path.replace_extension(kRecord), no_record);
      const bool is_gone = ::kill(pid, 0) != 0 && errno == ESRCH;
      all.push_back({.so_far = std::move(*record),
                     .ended = is_gone || (!no_record && (no_live || left >= shown))});
    }
  }
  return all;
}

}  // namespace spillway
