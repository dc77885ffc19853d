// A pool of threads that take the next job, in the order of the traces. See batch.h.
#include "runtime/batch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <thread>

#include "base/mutex.h"
#include "trace/read.h"

namespace spillway {
namespace {

// A trace from the first job that needs it to the last.
class SharedTrace {
 public:
  void expect_job() { ++jobs_left_; }

  // Reads the file in the first caller; the others wait for it. Valid until this job's release().
  const Result<Trace>& get(const std::filesystem::path& file) {
    std::call_once(read_, [&] { trace_ = std::make_unique<const Result<Trace>>(read(file)); });
    return *trace_;
  }
  void release() {
    if (jobs_left_.fetch_sub(1) == 1) {
      trace_.reset();
    }
  }

 private:
  static Result<Trace> read(const std::filesystem::path& file) {
    try {
      return read_trace(file);
    } catch (const std::bad_alloc&) {
      return make_error(ErrorCode::kUnsupported, "{}: not enough memory to read this trace",
                        file.string());
    }
  }

  std::once_flag read_;
  std::unique_ptr<const Result<Trace>> trace_;
  std::atomic<std::size_t> jobs_left_ = 0;
};

TraceFacts facts_of(const Trace& trace) {
  TraceFacts facts{trace.model, trace.batch_size, 0, {}};
  for (const Kernel& kernel : trace.kernels) {
    facts.ideal_ns += kernel.duration_ns;
    facts.kernel_durations_ns.push_back(kernel.duration_ns);
  }
  return facts;
}

// An exception must not leave a thread: it would end the program with it.
Result<SimulationResult> simulate_job(const Trace& trace, const BatchJob& job) {
  try {
    return simulate(trace, job.machine, *job.policy, job.options);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: not enough memory for this simulation; use fewer --jobs",
                      job.policy->name);
  }
}

BatchOutcome run_job(const Result<Trace>& trace, const BatchJob& job) {
  if (!trace) {
    return {tl::unexpected<Error>(trace.error()), tl::unexpected<Error>(trace.error()), 0};
  }
  const auto start = std::chrono::steady_clock::now();
  Result<SimulationResult> result = simulate_job(*trace, job);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {facts_of(*trace), std::move(result), wall.count()};
}

}  // namespace

std::vector<BatchOutcome> run_batch(std::span<const std::filesystem::path> trace_files,
                                    std::span<const BatchJob> jobs, std::size_t workers,
                                    const std::function<void(std::size_t done)>& on_done) {
  std::vector<SharedTrace> traces(trace_files.size());
  for (const BatchJob& job : jobs) {
    traces.at(job.trace).expect_job();
  }
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return jobs[a].trace < jobs[b].trace; });

  std::vector<BatchOutcome> outcomes(jobs.size());
  std::atomic<std::size_t> next = 0;
  Mutex done_mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t turn = next++; turn < jobs.size(); turn = next++) {
      const BatchJob& job = jobs[order[turn]];
      SharedTrace& trace = traces[job.trace];
      outcomes[order[turn]] = run_job(trace.get(trace_files[job.trace]), job);
      trace.release();
      const MutexLock lock(done_mutex);
      ++done;
      if (on_done) {
        on_done(done);
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(workers, jobs.size()); ++i) {
      threads.emplace_back(work);
    }
    work();
  }
  return outcomes;
}

}  // namespace spillway
