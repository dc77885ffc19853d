// What a run under a space was like, for tables, live lines and reports: taken while it runs,
// written as JSON at its end. Layer: runtime. docs/run-record.md has the fields.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/host/host_space.h"

namespace spillway {

// One moment of the run. Bytes and times that move are sums since the start.
struct RunSample {
  double at_s = 0;
  std::array<Bytes, kTierCount> used_bytes{};
  Bytes live_bytes = 0;
  std::array<std::array<Bytes, kTierCount>, kTierCount> moved_bytes{};
  std::uint64_t page_faults = 0;
  double stalled_s = 0;
};

class RunRecorder {
 public:
  // The space must outlive it. live_file: where the last sample is kept for others to read while
  // the run lasts; empty for nowhere.
  RunRecorder(HostSpace& space, std::string live_file);
  ~RunRecorder();
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  // The whole record, as JSON. command: what was run, for people.
  [[nodiscard]] std::string finish(const std::string& command);

 private:
  void sample_until_stopped();
  RunSample sample();
  void keep(const RunSample& sample);

  HostSpace& space_;
  std::string live_file_;
  TimeNs start_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::vector<RunSample> samples_;
  std::size_t every_ = 1;  // of the moments, one in so many is kept
  std::size_t moments_ = 0;
  std::thread thread_;
};

}  // namespace spillway
