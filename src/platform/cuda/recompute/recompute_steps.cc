// Contents that are made again instead of moved: the launches that do it. See recompute_steps.h;
// docs/cuda.md.
#include "platform/cuda/recompute/recompute_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "platform/cuda/driver/in_context.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"
#include "platform/cuda/stream/held_thread.h"

namespace spillway::cuda {
namespace {

using What = Recomputing::Step::What;

LaunchHash hash_of(std::string_view name, std::uint64_t first, std::uint64_t second) {
  return hash_launch(name, {{{.allocation = first, .bytes = second}}});
}

}  // namespace

RecomputeSteps::RecomputeSteps(PlatformState& state, PlatformParts& parts)
    : PlatformPart(state, parts), extra_(state.driver, state.options.device) {}

// Nobody misses fingerprints: without them less is given up.
void RecomputeSteps::start() {
  constexpr Bytes kFingerprintBytes = Bytes{FingerprintPlaces::kFingerprints} *
                                      FingerprintPlaces::kPlaces * kFingerprintWords *
                                      sizeof(std::uint64_t);
  const Lock lock(state_);
  if (!state_.options.own_launches.fingerprint || !state_.governor.recomputes()) {
    return;
  }
  void* words = nullptr;
  const CuResult made = state_.without_lock(
      [&] { return state_.driver.host_alloc(&words, kFingerprintBytes, kCuHostAllocPortable); });
  if (made == CuResult::kSuccess) {
    fingerprints_ = static_cast<std::uint64_t*>(words);
    state_.recomputing.set_words(fingerprints_);
  }
}

void RecomputeSteps::end() {
  Lock lock(state_);
  std::uint64_t* const words = std::exchange(fingerprints_, nullptr);
  lock.unlock();
  if (words != nullptr) {
    (void)state_.driver.host_free(words);
  }
  extra_.give_back();
}

// Where all fits nothing is given up, and nobody need know anything.
bool RecomputeSteps::recomputes() const {
  return fingerprints_ != nullptr && !state_.governor.all_fits() && !state_.bypass.is_on() &&
         !parts_.streams.is_capturing();
}

void RecomputeSteps::born(AllocationId id) {
  const bool may_be = recomputes();
  stores_launches_.store(may_be, std::memory_order_relaxed);
  if (may_be) {
    state_.recomputing.born(id);
  }
}

// One after the other until there is nothing.
template <typename Next>
void RecomputeSteps::carry_out_all(const Next& next) {
  TimeNs sign_ns = 0;
  while (!state_.broken) {
    const std::optional<Recomputing::Step> step = next();
    if (!step) {
      return;
    }
    carry_out(*step, sign_ns);
  }
}

// Where nothing is kept to be made again, which is so where all fits, nothing is looked up.
void RecomputeSteps::before_death(std::uint64_t address, bool handed_on,
                                  std::optional<CuStream> next_on) {
  if (state_.recomputing.empty()) {
    return;
  }
  const Recomputing::Death death{
      .handed_on = handed_on,
      .next_on = next_on ? parts_.streams.known_stream(canonical(*next_on)) : std::nullopt};
  carry_out_all([&]() SPILLWAY_REQUIRES(platform_lock) {
    return state_.recomputing.before_death(state_.memory->number_of(address), death);
  });
}

void RecomputeSteps::divide(std::uint64_t address) {
  const Lock lock(state_);
  const AllocationId id = state_.memory->number_of(address);
  carry_out_all(
      [&]() SPILLWAY_REQUIRES(platform_lock) { return state_.recomputing.before_divide(id); });
  state_.recomputing.divided(id);
}

void RecomputeSteps::remake_all(std::optional<StreamId> stream) {
  carry_out_all(
      [&]() SPILLWAY_REQUIRES(platform_lock) { return state_.recomputing.before_end(stream); });
  state_.recomputing.end(stream);
}

void RecomputeSteps::code_ends() {
  const Lock lock(state_);
  remake_all(std::nullopt);
}

// The launch is issued next; what it makes can be made again if nothing else is known of that.
void RecomputeSteps::keep(const CudaLaunch& launch, std::span<const Access> accesses,
                          StreamId stream) {
  const AllocationId made = launch.keep ? state_.memory->number_of(launch.makes) : kNoAllocation;
  const bool wanted = launch.keep && recomputes() && parts_.bypass.may_bypass_on(launch.stream) &&
                      state_.recomputing.is_new(made) &&
                      !state_.engine.space().allocation(made).packed;
  const std::uint64_t number = state_.launches.stream(stream).issued;
  state_.recomputing.issued(accesses, stream, number);
  if (!wanted) {
    return;
  }
  Recomputing::Maker maker{.kept = launch.keep(),
                           .stream = stream,
                           .number = number,
                           .hash = hash_of("again", launch.hash.first, launch.hash.second),
                           .name = fmt::format("again: {}", launch.name)};
  const Bytes made_bytes = maker.kept.makes.bytes;
  Bytes read_bytes = 0;
  for (const CudaOperand& operand : maker.kept.reads) {
    read_bytes += operand.bytes;
    const Bytes from_bytes = state_.memory->offset_of(operand.address);
    maker.sources.push_back({.id = state_.memory->number_of(operand.address),
                             .from_bytes = from_bytes,
                             .to_bytes = from_bytes + operand.bytes});
  }
  const bool may_change =
      std::any_of(maker.sources.begin(), maker.sources.end(),
                  [this](const Recomputing::Source& it)
                      SPILLWAY_REQUIRES(platform_lock) { return parts_.exports.contains(it.id); });
  if (!may_change && worth_reading(read_bytes, made_bytes)) {
    state_.recomputing.made(made, std::move(maker));
  }
}

// One launch of a step, in its context, without the lock.
template <typename Call>
CuResult RecomputeSteps::put(Putting& putting, std::span<const CudaOperand> operands,
                             std::string_view name, LaunchHash hash, const Call& call) {
  const std::uint64_t launch = parts_.issue.issue_step(
      {.stream = putting.stream, .hash = hash, .name = name, .operands = operands},
      putting.step.id);
  if (launch == 0) {
    return CuResult::kNotReady;  // the run is ending
  }
  const CuResult result = state_.queue->times().of(
      putting.step.what == What::kRemake ? WorkTimes::What::kRemake : WorkTimes::What::kFingerprint,
      call);
  putting.number = parts_.issue.number_of(launch);
  parts_.issue.after_launch(launch, result == CuResult::kSuccess);
  return result;
}

// Not as one that overwrites all of it: if the driver refuses it, the bytes are still there.
CuResult RecomputeSteps::put_fill(Putting& putting, std::uint32_t pattern) {
  CudaOperand made = putting.maker.kept.makes;
  made.mode = AccessMode::kReadWrite;
  const CuResult result =
      put(putting, {&made, 1}, "pattern", hash_of("pattern", made.address, made.bytes), [&] {
        return state_.options.own_launches.fill(putting.stream, made.address, made.bytes, pattern);
      });
  putting.overwritten |= result == CuResult::kSuccess;
  return result;
}

CuResult RecomputeSteps::put_fingerprint(Putting& putting, FingerprintPlaces::Fingerprint which) {
  CudaOperand made = putting.maker.kept.makes;
  made.mode = AccessMode::kRead;
  return put(putting, {&made, 1}, "fingerprint", hash_of("fingerprint", made.address, made.bytes),
             [&] {
               return state_.options.own_launches.fingerprint(
                   putting.stream, made.address, made.bytes, putting.fingerprints.at(which));
             });
}

CuResult RecomputeSteps::put_maker(Putting& putting) {
  const Recomputing::Maker& maker = putting.maker;
  std::vector<CudaOperand> operands = maker.kept.reads;
  operands.push_back(maker.kept.makes);
  operands.back().mode = AccessMode::kOverwrite;
  return put(putting, operands, maker.name, maker.hash,
             [&] { return maker.kept.how->launch(putting.stream); });
}

// Over two patterns of which no byte is the same: if it leaves the same behind, it writes every
// byte.
CuResult RecomputeSteps::put_trial(Putting& putting) {
  constexpr std::uint32_t kPattern = 0x5bd1e995;
  CuResult result = putting.maker.kept.whole
                        ? put_fingerprint(putting, FingerprintPlaces::kBeforeTrial)
                        : CuResult::kSuccess;
  for (const FingerprintPlaces::Fingerprint which :
       {FingerprintPlaces::kFirst, FingerprintPlaces::kSecond}) {
    const std::uint32_t pattern = which == FingerprintPlaces::kFirst ? kPattern : ~kPattern;
    result = result == CuResult::kSuccess ? put_fill(putting, pattern) : result;
    result = result == CuResult::kSuccess ? put_maker(putting) : result;
    result = result == CuResult::kSuccess ? put_fingerprint(putting, which) : result;
  }
  return result;
}

CuResult RecomputeSteps::put(Putting& putting) {
  switch (putting.step.what) {
    case What::kTry:
      return put_trial(putting);
    case What::kMark:
      return put_fingerprint(putting, FingerprintPlaces::kFirst);
    case What::kCompare:
      return put_fingerprint(putting, FingerprintPlaces::kSecond);
    case What::kRemake:
      return put_maker(putting);
    case What::kWait:
      break;
  }
  return CuResult::kSuccess;
}

// What is known when it returns is to be asked anew. `sign_ns`: wait_a_little's; 0 before the
// first.
void RecomputeSteps::carry_out(const Recomputing::Step& step, TimeNs& sign_ns) {
  if (step.what == What::kWait) {
    const HeldThread held(state_, WorkTimes::What::kHeldForRemake);
    sign_ns = sign_ns == 0 ? now_ns() : sign_ns;
    parts_.markers.put_markers();
    state_.queue->wake();
    parts_.waits.wait_a_little(sign_ns);
    parts_.markers.take_ends();
    return;
  }
  if (!state_.recomputing.begin(step)) {
    return;
  }
  Putting putting{.step = step,
                  .maker = state_.recomputing.maker(step.id),
                  .stream = state_.launches.stream(step.stream).handle,
                  .overwritten = step.what == What::kRemake};
  if (step.what != What::kRemake) {
    for (const FingerprintPlaces::Fingerprint which :
         {FingerprintPlaces::kFirst, FingerprintPlaces::kSecond, FingerprintPlaces::kBeforeTrial}) {
      putting.fingerprints.at(which) = fingerprints_ + state_.recomputing.words_of(step.id, which);
    }
  }
  const CuContext context = state_.launches.context_of(step.stream);
  const CuResult result = state_.call_in(context, [&] { return put(putting); });
  if (result == CuResult::kSuccess) {
    state_.recomputing.done(step, putting.number);
  } else {
    state_.recomputing.refused(step);
    step_failed(putting, context, result);
  }
  state_.changed.notify_all();
}

// Where a kernel of the program has failed, or its context is gone, it hears of that from the
// driver, and of nothing else.
void RecomputeSteps::step_failed(const Putting& putting, CuContext context, CuResult result) {
  if (kernel_has_failed(result)) {
    state_.launches.lose(context);
  } else if (context_is_lost(result)) {
    state_.launches.lose(putting.step.stream);
  }
  if (putting.overwritten && !state_.launches.is_lost(context)) {
    state_.fail({ErrorCode::kUnsupported,
                 error_text(state_.driver, "what was given up could not be made again", result)});
  }
}

}  // namespace spillway::cuda
