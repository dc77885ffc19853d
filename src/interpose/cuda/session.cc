// See session.h.
#include "interpose/cuda/session.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/deviations.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/kernels/fill_kernel.h"
#include "interpose/cuda/kernels/fingerprint_kernel.h"
#include "interpose/cuda/kernels/own_kernels.h"
#include "interpose/cuda/memory/device_in_use.h"
#include "interpose/cuda/memory/past_budget.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/real_symbols.h"
#include "interpose/cuda/recording.h"
#include "platform/common/process/say.h"
#include "runtime/cuda/cuda_space.h"
#include "runtime/record/own_record.h"

namespace spillway::cuda {
namespace detail {

constinit std::atomic<Session*> the_session{nullptr};

}  // namespace detail
namespace {

// Never destroyed: threads of the program may run until the very end.
struct Everything {
  std::unique_ptr<CudaSpace> space;
  std::unique_ptr<DeviceHeap> heap;
  std::unique_ptr<Segments> segments;
  std::unique_ptr<DeviceInUse> in_use;
  std::unique_ptr<RunRecorder> recorder;
  std::unique_ptr<Recording> recording;
  Session session;

  [[nodiscard]] Bytes used_bytes() const {
    return space->platform().stats().used_bytes[index_of(Tier::kDevice)];
  }
};

Mutex making;
std::vector<CuDevice> peers SPILLWAY_GUARDED_BY(making);  // that may use the space
std::atomic<Everything*> made{nullptr};
std::atomic<bool> forked{false};
// The driver ends before the program's last thread: what it refuses from then on is no failure.
std::atomic<bool> ending{false};
pid_t owner = 0;

// Names a file: for measurements (bench/gpu/train.py).
constexpr const char* kWorkTimesVariable = "SPILLWAY_WORK_TIMES";
void write_work_times(const CudaPlatform& platform) {
  const char* const path = std::getenv(kWorkTimesVariable);
  if (path == nullptr) {
    return;
  }
  std::string text = "{";
  for (const CudaPlatform::Work& work : platform.work()) {
    text += fmt::format(R"({}"{}": {{"count": {}, "s": {:.6f}}})", text.size() > 1 ? ", " : "",
                        work.name, work.count, to_seconds(work.time_ns));
  }
  if (const CallTimes* const calls = detail::call_times.load()) {
    for (const CallTimes::Told& call : calls->told()) {
      text += fmt::format(R"(, "{}": {{"count": {}, "s": {:.6f}}})", call.name, call.count,
                          to_seconds(call.time_ns));
    }
  }
  std::ofstream file(path);
  if (!(file << text << "}\n").flush()) {
    say(fmt::format("{}: cannot write what took how long", path));
  }
}

RunRecord record_without_space() {
  RunRecord record;
  record.pid = static_cast<std::uint64_t>(::getpid());
  add_past_budget(record);
  return record;
}

// At the program's end, before the driver's own end: it has registered before.
void write_record() {
  Everything* const everything = made.load();
  if (forked || owner != ::getpid()) {
    return;
  }
  if (everything == nullptr) {
    write_own_record(record_without_space());
    return;
  }
  ending = true;
  if (Recording* const recorded = recording()) {
    recorded->finish();
  }
  everything->in_use->look(everything->used_bytes());
  write_own_record(*everything->recorder);
  everything->in_use->stop();
  write_work_times(everything->space->platform());
}

// The driver serves no child of a process that has used it, and the space's threads are not there.
void in_child() {
  forked = true;
  detail::the_session = nullptr;
  set_recording(nullptr);  // another thread may have had its lock
}

OwnLaunches own_launches() {
  return {.fingerprint =
              [](CuStream stream, CuAddress from, Bytes bytes, std::uint64_t* to) {
                return has_fingerprint_kernel() ? launch_fingerprint(from, bytes, to, stream)
                                                : CuResult::kNotSupported;
              },
          .fill =
              [](CuStream stream, CuAddress to, Bytes bytes, std::uint32_t pattern) {
                return has_fill_kernel() && has_fingerprint_kernel()
                           ? launch_fill({.to = to, .bytes = bytes, .pattern = pattern}, stream)
                           : CuResult::kNotSupported;
              }};
}

void fatal(const Error& error) {
  if (ending) {
    return;
  }
  end_run(error.message);
}

void warn(std::string_view line) {
  if (!ending) {
    say_and_keep(line);
  }
}

Result<std::unique_ptr<Everything>> make(CuDevice device, CuContext context) {
  const Result<Driver> driver = open_driver({}, real_dlsym());
  if (!driver) {
    return tl::unexpected<Error>(driver.error());
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (Status told = check(*driver, "cuMemGetInfo", driver->memory_info(&free_bytes, &total_bytes));
      !told) {
    return tl::unexpected<Error>(told.error());
  }
  Result<SpaceOptions> options =
      space_options_from_environment(gpu_defaults(MemoryLimits().room(), free_bytes));
  if (!options) {
    return tl::unexpected<Error>(options.error());
  }
  // Others may use the device, and so do contexts and libraries of this program.
  const Bytes most_bytes = free_bytes - free_bytes / 20;
  if (options->device_bytes > most_bytes) {
    say_and_keep(
        fmt::format("a device memory of {} is more than is free on device {}: it is {} now",
                    format_bytes(options->device_bytes), device, format_bytes(most_bytes)));
    options->device_bytes = most_bytes;
  }
  tell_of_others(*options, free_bytes, total_bytes, device);
  Result<std::unique_ptr<CudaSpace>> space =
      CudaSpace::open(*driver, device, *options, fatal, warn, own_launches());
  if (!space) {
    return tl::unexpected<Error>(space.error());
  }
  auto everything = std::make_unique<Everything>();
  everything->space = std::move(*space);
  CudaPlatform& platform = everything->space->platform();
  everything->heap = std::make_unique<DeviceHeap>(platform);
  everything->segments = std::make_unique<Segments>(platform);
  everything->segments->tell_of_dead(forget_carried);
  everything->in_use =
      std::make_unique<DeviceInUse>(*driver, device, platform.capacity_bytes(Tier::kDevice));
  everything->recorder = std::make_unique<RunRecorder>(
      RunSubject{
          .platform = platform,
          .policy = options->policy,
          .plan_report = nullptr,
          .each_second = [here = everything.get()] { here->in_use->look(here->used_bytes()); },
          .complete =
              [here = everything.get()](RunRecord& record) {
                add_past_budget(record);
                here->in_use->add_to(record);
                record.said = kept_lines();
                record.moves.asked_prefetch_bytes = here->session.asked_prefetch_bytes;
                record.moves.asked_pre_evict_bytes = here->session.asked_pre_evict_bytes;
              }},
      own_live_file());
  everything->session.platform = &platform;
  everything->session.heap = everything->heap.get();
  everything->session.segments = everything->segments.get();
  everything->session.device = device;
  everything->session.context = context;
  platform.streams().watch_captures(detail::captures);
  everything->recording = Recording::make(*driver, everything->session);
  set_recording(everything->recording.get());
  if (everything->recording != nullptr) {
    everything->heap->always_tell();
    everything->segments->always_tell();
  }
  return everything;
}

Session* open_session(CuDevice device, CuContext context) {
  const MutexLock lock(making);
  if (Session* const here = session(); here != nullptr || forked) {
    return here;
  }
  Result<std::unique_ptr<Everything>> everything = make(device, context);
  if (!everything) {
    say(everything.error().message);
    ::_exit(everything.error().code == ErrorCode::kInvalidInput ? 2 : kOwnFailureStatus);
  }
  record_at_end();
  if (std::getenv(kWorkTimesVariable) != nullptr) {
    static CallTimes times;
    detail::call_times = &times;
  }
  if (!captures_under_way()) {
    load_own_kernels();
    tell_without_recomputation((*everything)->space->options());
  }
  for (const CuDevice peer : peers) {
    (*everything)->space->platform().exports().share_with(peer);
  }
  made = everything->release();
  detail::the_session.store(&made.load()->session, std::memory_order_release);
  return session();
}

// In the first context that allocates and in which nothing of ours is under way, so that no stream
// wait is waited for.
void load_lost_own_kernels(const Session& here) {
  CuContext context = nullptr;
  if (!captures_under_way() && real().cuCtxGetCurrent(&context) == CuResult::kSuccess &&
      !here.platform->streams().is_busy(context) && take_lost_own_kernels()) {
    load_own_kernels();
  }
}

}  // namespace

constinit thread_local bool ProgramCall::inside = false;

Session* session_for_allocation() {
  CuDevice device = 0;
  if (forked || real().cuCtxGetDevice(&device) != CuResult::kSuccess) {
    return nullptr;
  }
  Session* here = session();
  if (here == nullptr) {
    CuContext context = nullptr;
    (void)real().cuCtxGetCurrent(&context);
    here = open_session(device, context);
  }
  if (here != nullptr && here->device != device) {
    static std::atomic<bool> told{false};
    say_once(told, fmt::format("memory on device {} is left to the driver: Spillway serves one "
                               "device, the first that the program uses, {}",
                               device, here->device));
    return nullptr;
  }
  if (here != nullptr && own_kernels_are_lost()) {
    load_lost_own_kernels(*here);
  }
  return here;
}

void record_at_end() {
  static std::once_flag once;
  std::call_once(once, [] {
    owner = ::getpid();
    ::pthread_atfork(nullptr, nullptr, in_child);
    std::atexit(write_record);
  });
}

RunRecord record_so_far() {
  Everything* const everything = forked ? nullptr : made.load();
  return everything == nullptr ? record_without_space() : everything->recorder->so_far();
}

void share_with(CuDevice device) {
  const MutexLock lock(making);
  if (std::find(peers.begin(), peers.end(), device) == peers.end()) {
    peers.push_back(device);
    if (Session* const here = session()) {
      here->platform->exports().share_with(device);
    }
  }
}

void tell_that_code_ends() {
  const ProgramCall here(CallKind::kOther);
  if (const Session* const session = here.seen_by()) {
    session->platform->recompute().code_ends();
  }
}

void say_once(std::atomic<bool>& told, std::string_view line) {
  if (!told.exchange(true)) {
    say(line);
  }
}

CuResult refuse(std::atomic<bool>& told, std::string_view call, std::string_view reason) {
  say_once(told, fmt::format("{} is not supported under a memory budget: {}", call, reason));
  return CuResult::kNotSupported;
}

}  // namespace spillway::cuda
