// `--metrics`: what a run counts, for those who watch the machine, while it runs. Layer: cli.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cli/live/metrics_port.h"
#include "platform/common/process/descriptor.h"
#include "runtime/record/run_records.h"

namespace spillway {

// Whether `where` can be read as a port, or as a file; kInvalidInput. Looks at nothing.
[[nodiscard]] bool is_metrics_port(const std::string& where);
[[nodiscard]] Status check_metrics(const std::string& where);

// A thread of this process that gives away what the processes of a run show of themselves; the
// program is not asked. At its end a file has the last numbers, and stays.
class RunMetrics {
 public:
  // where: a file, or a port of the loopback, "127.0.0.1:9400", ":9400". records: the folder of the
  // run. kInvalidInput where it cannot be had; nullptr where none is asked for.
  [[nodiscard]] static Result<std::unique_ptr<RunMetrics>> begin(const std::string& where,
                                                                 std::string records);
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;
  ~RunMetrics();

 private:
  RunMetrics(Descriptor stop, std::string records, std::string file,
             std::optional<MetricsPort> port);
  void write_until_stopped();
  void write_or_say(const std::vector<LiveRecord>& processes);

  Descriptor stop_;
  std::string records_;
  std::string file_;
  std::optional<MetricsPort> port_;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace spillway
