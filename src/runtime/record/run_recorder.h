// Watches a space while its program runs, and makes the record at the end. Layer: runtime.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "platform/common/observed_platform.h"
#include "runtime/record/memory_watch.h"
#include "runtime/record/run_record.h"
#include "runtime/record/run_samples.h"
#include "runtime/run/program_space.h"

namespace spillway {

// What is watched. The platform must outlive the recorder.
struct RunSubject {
  ObservedPlatform& platform;
  std::string policy;
  std::function<std::optional<PlanReport>()> plan_report;  // nullptr for policies without plans
  std::function<void()> each_second = {};                  // also at the start; by our thread
  std::function<void(RunRecord&)> complete = {};           // what others know of the run
};

class RunRecorder {
 public:
  // live_file: where the record so far is kept for others to read while the run lasts, ten times a
  // second; empty for nowhere.
  RunRecorder(RunSubject subject, std::string live_file);
  // The space must outlive it.
  RunRecorder(ProgramSpace& space, std::string live_file);
  ~RunRecorder();
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  // What happened when, as far as that was wanted (SPILLWAY_TRACE_EVENTS); nullptr where not.
  [[nodiscard]] const EventLog* events() const { return events_.get(); }
  [[nodiscard]] TimeNs start_ns() const { return start_ns_; }
  // What is counted, up to now: all but the command, what waited longest and the timeline.
  // Thread-safe.
  [[nodiscard]] RunRecord so_far();
  // Up to now, whole. command: what was run, for people.
  [[nodiscard]] RunRecord finish(const std::string& command);

 private:
  void sample_until_stopped();
  void show(const RunRecord& record);

  RunSubject subject_;
  std::string live_file_;
  TimeNs start_ns_ = 0;
  std::unique_ptr<EventLog> events_;
  Mutex show_mutex_;
  // elapsed_s of the newest record that was shown.
  double shown_s_ SPILLWAY_GUARDED_BY(show_mutex_) = 0;
  Mutex mutex_;
  std::condition_variable wake_;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  RunSamples samples_ SPILLWAY_GUARDED_BY(mutex_);
  MemoryWatch memory_;
  std::thread thread_;
};

}  // namespace spillway
