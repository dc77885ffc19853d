// See gpu_updates.h.
#include "near/gpu_updates.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "near/float_mode.h"

namespace spillway::near {

GpuUpdates& GpuUpdates::all() {
  static GpuUpdates* const updates = new GpuUpdates;
  return *updates;
}

// The child of a fork has neither the thread nor the GPU, and the lock may be held there for ever.
bool GpuUpdates::in_another_process() const { return process_ != 0 && process_ != ::getpid(); }

// --- The program's thread ------------------------------------------------------------------------

void GpuUpdates::begin(const Begin& what, const Run& run, std::uint8_t* taken) {
  std::fill_n(taken, what.tensors.size(), std::uint8_t{0});
  const AtHost* const at_host = at_host_of_gpu();
  if (at_host == nullptr || in_another_process() || !start()) {
    return;
  }
  Job job{.part = std::nullopt,
          .run = std::make_shared<const Run>(run),
          .scalars = nullptr,
          .float_mode = float_mode()};
  if (what.gradient_scale != nullptr || what.found_inf != nullptr) {
    job.scalars = begin_scalars(what, *at_host);
    if (job.scalars == nullptr) {
      return;
    }
  }
  for (std::size_t i = 0; i < what.tensors.size(); ++i) {
    taken[i] = begin_tensor(what, what.tensors[i], job, *at_host) ? 1 : 0;
  }
}

// They are the whole of an update of their own, which only reads them: what else lies in their
// blocks is back on the device at once. null: they cannot be read at the host.
std::shared_ptr<GpuUpdates::Scalars> GpuUpdates::begin_scalars(const Begin& what,
                                                               const AtHost& at_host) {
  auto scalars = std::make_shared<Scalars>();
  std::vector<spillway_at_host_operand> operands;
  for (const float* const scalar : {what.gradient_scale, what.found_inf}) {
    if (scalar != nullptr) {
      operands.push_back(
          {.start = const_cast<float*>(scalar), .bytes = sizeof(float), .writes = 0});
    }
  }
  scalars->has_scale = what.gradient_scale != nullptr;
  scalars->has_found_inf = what.found_inf != nullptr;
  std::uint64_t update = 0;
  if (at_host.begin(operands.data(), operands.size(), 1, what.stream, &update) == 0) {
    return nullptr;
  }
  const MutexLock lock(mutex_);
  jobs_.emplace(update, Job{.part = std::nullopt, .run = nullptr, .scalars = scalars});
  begun_.notify_all();
  return scalars;
}

bool GpuUpdates::begin_tensor(const Begin& what, const spillway_near_tensor& tensor, const Job& job,
                              const AtHost& at_host) {
  std::vector<Part> parts;
  std::vector<spillway_at_host_operand> operands;
  for (std::uint64_t start = 0; start < tensor.elements; start += kPartElements) {
    const Range range{tensor, start, std::min(start + kPartElements, tensor.elements)};
    const Part& part = parts.emplace_back(range, what.element_bytes, what.gradient_bytes);
    const auto of_part = part.operands();
    if (!of_part) {
      return false;
    }
    operands.insert(operands.end(), of_part->begin(), of_part->end());
  }
  std::vector<std::uint64_t> updates(parts.size());
  if (parts.empty() || at_host.begin(operands.data(), operands.size() / parts.size(), parts.size(),
                                     what.stream, updates.data()) == 0) {
    return false;
  }
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].begun(updates[i]);
    Job mine = job;
    mine.part = parts[i];
    jobs_.emplace(updates[i], std::move(mine));
  }
  begun_.notify_all();
  return true;
}

void GpuUpdates::wait() {
  if (in_another_process()) {
    return;
  }
  const MutexLock lock(mutex_);
  mutex_.wait(ended_, [&]() SPILLWAY_REQUIRES(mutex_) { return jobs_.empty(); });
}

// --- Our own -------------------------------------------------------------------------------------

// False where the system gives no thread.
bool GpuUpdates::start() {
  const MutexLock lock(mutex_);
  if (process_ != 0) {
    return true;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // it takes no signals of the program's
  try {
    std::thread([this] { serve(); }).detach();
    process_ = ::getpid();
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return process_ != 0;
}

void GpuUpdates::serve() {
  pthread_setname_np(pthread_self(), "spw-near-gpu");
  while (true) {
    {
      const MutexLock lock(mutex_);
      mutex_.wait(begun_, [&]() SPILLWAY_REQUIRES(mutex_) { return !jobs_.empty(); });
    }
    if (const std::uint64_t update = at_host_of_gpu()->next(); update != 0) {
      do_one(update);
      continue;
    }
    // The run is about to end with an error: nothing comes any more.
    const MutexLock lock(mutex_);
    jobs_.clear();
    ended_.notify_all();
  }
}

// Who has begun it may not have noted it yet.
std::optional<GpuUpdates::Job> GpuUpdates::job_of(std::uint64_t update) {
  const MutexLock lock(mutex_);
  mutex_.wait(begun_, [&]() SPILLWAY_REQUIRES(mutex_) { return jobs_.contains(update); });
  const Job& job = jobs_.at(update);
  if (job.part && job.scalars != nullptr && !job.scalars->read) {
    job.scalars->waiting.push_back(update);
    return std::nullopt;
  }
  return job;
}

void GpuUpdates::do_one(std::uint64_t update) {
  const std::optional<Job> job = job_of(update);
  if (!job) {
    return;
  }
  if (!job->part) {
    read_scalars(update, *job->scalars);
    return;
  }
  compute(*job->part, *job, *at_host_of_gpu());
  ended(update);
}

void GpuUpdates::read_scalars(std::uint64_t update, Scalars& scalars) {
  const AtHost& at_host = *at_host_of_gpu();
  std::size_t operand = 0;
  const auto read = [&](bool has, float& to) {
    spillway_at_host_extent extent{};
    if (has && at_host.extents(update, operand++, &extent, 1) == 1) {
      std::memcpy(&to, extent.at, sizeof(float));
    }
  };
  read(scalars.has_scale, scalars.gradient_scale);
  read(scalars.has_found_inf, scalars.found_inf);
  at_host.end(update);
  std::vector<std::uint64_t> waiting;
  {
    const MutexLock lock(mutex_);
    scalars.read = true;
    waiting.swap(scalars.waiting);
  }
  ended(update);
  for (const std::uint64_t part : waiting) {
    do_one(part);
  }
}

void GpuUpdates::compute(const Part& part, const Job& job, const AtHost& at_host) {
  const bool skipped = job.scalars != nullptr && job.scalars->found_inf != 0;
  std::optional<std::vector<Range>> ranges = skipped ? std::vector<Range>() : part.ranges(at_host);
  if (!ranges) {
    // Cut at grains and gathered in whole blocks, it has its ranges.
    std::fputs("spillway: an update does not find its data in host memory; this is a defect\n",
               stderr);
    std::abort();
  }
  if (job.scalars != nullptr && job.scalars->has_scale) {
    for (Range& range : *ranges) {
      range.tensor.step.gradient_scale = job.scalars->gradient_scale;
    }
  }
  set_float_mode(job.float_mode);
  if (!ranges->empty()) {
    (*job.run)(*ranges);
  }
  part.end(at_host);
}

void GpuUpdates::ended(std::uint64_t update) {
  const MutexLock lock(mutex_);
  jobs_.erase(update);
  if (jobs_.empty()) {
    ended_.notify_all();
  }
}

}  // namespace spillway::near
