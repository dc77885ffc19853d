// See program_space.h.
#include "runtime/run/program_space.h"

#include <algorithm>
#include <utility>

#include "machine/machine.h"
#include "runtime/host/open_host_platform.h"
#include "trace/trace.h"

namespace spillway {
namespace {

// What a program uses drifts, and faults alone tell only what is missing: a policy that has tables
// is told again of a whole iteration after so many, twice as many each time.
constexpr std::uint64_t kLeastWatch = 2;
constexpr std::uint64_t kMostWatch = 32;

}  // namespace

Result<std::unique_ptr<ProgramSpace>> ProgramSpace::open(const SpaceOptions& options) {
  if (const Status fine = check_policy(options); !fine) {
    return tl::unexpected<Error>(fine.error());
  }
  const Result<const PolicyInfo*> info = find_policy(options.policy);
  const PolicyTraits& traits = (*info)->traits;
  std::unique_ptr<ProgramSpace> space(new ProgramSpace(options, **info));
  if ((*info)->plan != nullptr) {
    auto profiled = std::make_unique<Profiled>((*info)->name);
    space->profiled_ = profiled.get();
    space->policy_ = std::move(profiled);
  } else {
    Result<std::unique_ptr<Policy>> policy =
        (*info)->make(Trace{}, Machine{}, options.policy_options);
    if (!policy) {
      return tl::unexpected<Error>(policy.error());
    }
    space->policy_ = std::move(*policy);
  }
  Result<std::unique_ptr<ProgramPlatform>> platform =
      open_host_platform(options, traits, *space->policy_);
  if (!platform) {
    return tl::unexpected<Error>(platform.error());
  }
  space->platform_ = std::move(*platform);
  ProgramPlatform& running = *space->platform_;
  space->capture_ =
      capture_if_wanted("host", {.begin = [&running] { running.begin_recording(); },
                                 .end = [&running] { return running.end_recording(); }});
  return space;
}

ProgramSpace::~ProgramSpace() {
  if (capture_ != nullptr) {
    capture_->finish();
  }
}

void ProgramSpace::prefetch(void* start, Bytes bytes) {
  asked_prefetch_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  platform_->prefetch(start, bytes);
}

void ProgramSpace::pre_evict(void* start, Bytes bytes) {
  pre_evict(start, bytes,
            platform_->capacity_bytes(Tier::kHost) > 0 ? Tier::kHost : Tier::kStorage);
}

bool ProgramSpace::pre_evict(void* start, Bytes bytes, Tier to) {
  if (platform_->capacity_bytes(to) == 0) {
    return false;
  }
  asked_pre_evict_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  platform_->pre_evict(start, bytes, to);
  return true;
}

// The first iteration is the program's setting up: memory is where it will stay from the second on.
bool ProgramSpace::iteration_ended() {
  if (capturing()) {
    return capture_->iteration_ended();
  }
  if (!std::exchange(said_, true)) {
    forget_found();
  }
  ++iterations_;
  if (watching_) {
    end_watch();
    return false;
  }
  if (!should_watch()) {
    return false;
  }
  begin_watch();
  return true;
}

void ProgramSpace::forget_found() {
  if (watching_.exchange(false)) {
    (void)platform_->end_recording();
  }
  asked_ = false;
  iterations_ = next_watch_ = 0;
}

// From one boundary to the next: asked, told at some time, watched as a whole, over.
bool ProgramSpace::iteration_found(std::uint64_t launches) {
  constexpr std::uint32_t kTries = 4;
  if (profiled_ == nullptr || said_ || capturing()) {
    return false;
  }
  const bool steady = found_.ended(launches);
  ++iterations_;
  if (watching_) {
    if (steady) {
      found_.watched();
      end_watch();
    } else {
      (void)platform_->end_recording();
      watching_ = false;
    }
    if (steady || ++unlike_ == kTries) {
      asked_ = false;
      return false;
    }
  }
  if (asked_) {
    if (told_) {
      begin_watch();
      return false;
    }
    return true;
  }
  if (!steady || !should_watch()) {
    return false;
  }
  unlike_ = 0;
  told_ = false;
  asked_ = true;
  return true;
}

// Since it was last asked.
bool ProgramSpace::has_moved() {
  const Bytes before_bytes = std::exchange(
      moved_bytes_, platform_->stats().engine.moved(Tier::kHost, Tier::kDevice) +
                        platform_->stats().engine.moved(Tier::kStorage, Tier::kDevice));
  return moved_bytes_ > before_bytes;
}

// In the iteration that begins.
bool ProgramSpace::should_watch() {
  if (!info_.traits.learns) {
    return false;
  }
  if (next_watch_ == 0) {
    return said_ || has_moved();
  }
  if (profiled_ == nullptr) {
    return iterations_ >= next_watch_ && has_moved();
  }
  const bool outdated =
      profiled_->follows_plan() && plan_watch_.outdated(platform_->stats().engine.faults);
  // Where paging did better, a plan is tried again much later.
  const std::uint64_t next = next_watch_ + (profiled_->gave_up() ? kMostWatch : 0);
  const bool another = profiled_->gave_up() || (!said_ && found_.other());
  return outdated || (another && iterations_ >= next && has_moved());
}

void ProgramSpace::begin_watch() {
  next_watch_ = iterations_ + std::clamp<std::uint64_t>(iterations_, kLeastWatch, kMostWatch);
  if (profiled_ != nullptr) {
    platform_->begin_recording();
  }
  watching_ = true;
}

void ProgramSpace::end_watch() {
  watching_ = false;
  if (const std::optional<RecordedIteration> iteration = platform_->end_recording()) {
    make_plan(*iteration);
    plan_watch_.begin(platform_->stats().engine.faults);
  }
}

void ProgramSpace::make_plan(const RecordedIteration& iteration) {
  ProgramPlan made =
      plan_for_program(info_, iteration, *platform_, options_.link, options_.policy_options);
  if (made.plan) {
    platform_->change_policy([&] {
      profiled_->follow(iteration, std::move(*made.plan),
                        info_.traits.uses_host ? Tier::kHost : Tier::kStorage);
    });
  }
  const MutexLock lock(report_mutex_);
  made.report.number = report_ ? report_->number + 1 : 1;
  report_ = std::move(made.report);
}

std::optional<PlanReport> ProgramSpace::plan_report() const {
  const MutexLock lock(report_mutex_);
  return report_;
}

}  // namespace spillway
