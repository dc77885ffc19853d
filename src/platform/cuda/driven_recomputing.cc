// The program's thread: contents that are made again instead of moved. docs/cuda.md. See
// driven_platform.h; what is known of them is recomputing.h's.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

using What = Recomputing::Step::What;

LaunchHash hash_of(std::string_view name, std::uint64_t first, std::uint64_t second) {
  return hash_launch(name, {{{.allocation = first, .bytes = second}}});
}

}  // namespace

// Where all fits nothing is given up, and nobody need know anything.
bool DrivenPlatform::recomputes() const {
  return fingerprints_ != nullptr && !governor_.all_fits() && !bypass_.is_on() &&
         (captures_ == nullptr || *captures_ == 0);
}

void DrivenPlatform::born(AllocationId id) {
  const bool may_be = recomputes();
  stores_launches_.store(may_be, std::memory_order_relaxed);
  if (may_be) {
    recomputing_.born(id);
  }
}

// --- Deaths and ends ----------------------------------------------------------------------------

// One after the other until there is nothing.
template <typename Next>
void DrivenPlatform::carry_out_all(const Next& next) {
  TimeNs sign_ns = 0;
  while (!broken_) {
    const std::optional<Recomputing::Step> step = next();
    if (!step) {
      return;
    }
    carry_out(*step, sign_ns);
  }
}

// Where nothing is kept to be made again, which is so where all fits, nothing is looked up.
void DrivenPlatform::before_death(std::uint64_t address, bool handed_on,
                                  std::optional<CuStream> next_on) {
  if (recomputing_.empty()) {
    return;
  }
  const Recomputing::Death death{
      .handed_on = handed_on,
      .next_on = next_on ? known_stream(canonical(*next_on)) : std::nullopt};
  carry_out_all([&]() SPILLWAY_REQUIRES(mutex_) {
    return recomputing_.before_death(memory_->number_of(address), death);
  });
}

void DrivenPlatform::divide(std::uint64_t address) {
  Lock lock(mutex_);
  const AllocationId id = memory_->number_of(address);
  carry_out_all([&]() SPILLWAY_REQUIRES(mutex_) { return recomputing_.before_divide(id); });
  recomputing_.divided(id);
}

void DrivenPlatform::remake_all(std::optional<StreamId> stream) {
  carry_out_all([&]() SPILLWAY_REQUIRES(mutex_) { return recomputing_.before_end(stream); });
  recomputing_.end(stream);
}

void DrivenPlatform::code_ends() {
  Lock lock(mutex_);
  remake_all(std::nullopt);
}

// --- What launches make -------------------------------------------------------------------------

// The launch is issued next; what it makes can be made again if nothing else is known of that.
void DrivenPlatform::keep(const CudaLaunch& launch, std::span<const Access> accesses,
                          StreamId stream) {
  const AllocationId made = launch.keep ? memory_->number_of(launch.makes) : kNoAllocation;
  const bool wanted = launch.keep && recomputes() && may_bypass_on(launch.stream) &&
                      recomputing_.is_new(made) && !engine_.space().allocation(made).packed;
  const std::uint64_t number = launches_.stream(stream).issued;
  recomputing_.issued(accesses, stream, number);
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
    const Bytes from_bytes = memory_->offset_of(operand.address);
    maker.sources.push_back({.id = memory_->number_of(operand.address),
                             .from_bytes = from_bytes,
                             .to_bytes = from_bytes + operand.bytes});
  }
  const bool may_change =
      std::any_of(maker.sources.begin(), maker.sources.end(),
                  [this](const Recomputing::Source& it)
                      SPILLWAY_REQUIRES(mutex_) { return exports_.contains(it.id); });
  if (!may_change && worth_reading(read_bytes, made_bytes)) {
    recomputing_.made(made, std::move(maker));
  }
}

// --- Steps --------------------------------------------------------------------------------------

// One launch of a step, in its context, without the lock.
template <typename Call>
CuResult DrivenPlatform::put(Putting& putting, std::span<const CudaOperand> operands,
                             std::string_view name, LaunchHash hash, const Call& call) {
  const std::uint64_t launch =
      issue({.stream = putting.stream, .hash = hash, .name = name, .operands = operands},
            putting.step.id);
  if (launch == 0) {
    return CuResult::kNotReady;  // the run is ending
  }
  const CuResult result = queue_->times().of(
      putting.step.what == What::kRemake ? WorkTimes::What::kRemake : WorkTimes::What::kFingerprint,
      call);
  putting.number = number_of(launch);
  after_launch(launch, result == CuResult::kSuccess);
  return result;
}

// Not as one that overwrites all of it: if the driver refuses it, the bytes are still there.
CuResult DrivenPlatform::put_fill(Putting& putting, std::uint32_t pattern) {
  CudaOperand made = putting.maker.kept.makes;
  made.mode = AccessMode::kReadWrite;
  const CuResult result =
      put(putting, {&made, 1}, "pattern", hash_of("pattern", made.address, made.bytes), [&] {
        return options_.own_launches.fill(putting.stream, made.address, made.bytes, pattern);
      });
  putting.overwritten |= result == CuResult::kSuccess;
  return result;
}

CuResult DrivenPlatform::put_fingerprint(Putting& putting, Recomputing::Fingerprint which) {
  CudaOperand made = putting.maker.kept.makes;
  made.mode = AccessMode::kRead;
  return put(putting, {&made, 1}, "fingerprint", hash_of("fingerprint", made.address, made.bytes),
             [&] {
               return options_.own_launches.fingerprint(putting.stream, made.address, made.bytes,
                                                        putting.fingerprints.at(which));
             });
}

CuResult DrivenPlatform::put_maker(Putting& putting) {
  const Recomputing::Maker& maker = putting.maker;
  std::vector<CudaOperand> operands = maker.kept.reads;
  operands.push_back(maker.kept.makes);
  operands.back().mode = AccessMode::kOverwrite;
  return put(putting, operands, maker.name, maker.hash,
             [&] { return maker.kept.how->launch(putting.stream); });
}

// Over two patterns of which no byte is the same: if it leaves the same behind, it writes every
// byte.
CuResult DrivenPlatform::put_trial(Putting& putting) {
  constexpr std::uint32_t kPattern = 0x5bd1e995;
  CuResult result = putting.maker.kept.whole ? put_fingerprint(putting, Recomputing::kBeforeTrial)
                                             : CuResult::kSuccess;
  for (const Recomputing::Fingerprint which : {Recomputing::kFirst, Recomputing::kSecond}) {
    const std::uint32_t pattern = which == Recomputing::kFirst ? kPattern : ~kPattern;
    result = result == CuResult::kSuccess ? put_fill(putting, pattern) : result;
    result = result == CuResult::kSuccess ? put_maker(putting) : result;
    result = result == CuResult::kSuccess ? put_fingerprint(putting, which) : result;
  }
  return result;
}

CuResult DrivenPlatform::put(Putting& putting) {
  switch (putting.step.what) {
    case What::kTry:
      return put_trial(putting);
    case What::kMark:
      return put_fingerprint(putting, Recomputing::kFirst);
    case What::kCompare:
      return put_fingerprint(putting, Recomputing::kSecond);
    case What::kRemake:
      return put_maker(putting);
    case What::kWait:
      break;
  }
  return CuResult::kSuccess;
}

// What is known when it returns is to be asked anew. `sign_ns`: wait_a_little's; 0 before the
// first.
void DrivenPlatform::carry_out(const Recomputing::Step& step, TimeNs& sign_ns) {
  if (step.what == What::kWait) {
    const Held held(*this, WorkTimes::What::kHeldForRemake);
    sign_ns = sign_ns == 0 ? now_ns() : sign_ns;
    put_markers();
    queue_->wake();
    wait_a_little(sign_ns);
    take_ends();
    return;
  }
  if (!recomputing_.begin(step)) {
    return;
  }
  Putting putting{.step = step,
                  .maker = recomputing_.maker(step.id),
                  .stream = launches_.stream(step.stream).handle,
                  .overwritten = step.what == What::kRemake};
  if (step.what != What::kRemake) {
    for (const Recomputing::Fingerprint which :
         {Recomputing::kFirst, Recomputing::kSecond, Recomputing::kBeforeTrial}) {
      putting.fingerprints.at(which) = fingerprints_ + recomputing_.words_of(step.id, which);
    }
  }
  const CuContext context = launches_.context_of(step.stream);
  mutex_.unlock();
  const CuResult result = in_context(context, [&] { return put(putting); });
  mutex_.lock();
  if (result == CuResult::kSuccess) {
    recomputing_.done(step, putting.number);
  } else {
    recomputing_.refused(step);
    step_failed(putting, context, result);
  }
  changed_.notify_all();
}

// Where a kernel of the program has failed, or its context is gone, it hears of that from the
// driver, and of nothing else.
void DrivenPlatform::step_failed(const Putting& putting, CuContext context, CuResult result) {
  if (kernel_has_failed(result)) {
    launches_.lose(context);
  } else if (context_is_lost(result)) {
    launches_.lose(putting.step.stream);
  }
  if (putting.overwritten && !broken_ && !launches_.is_lost(context)) {
    broken_ = true;
    failures_.fatal({ErrorCode::kUnsupported,
                     error_text(driver_, "what was given up could not be made again", result)});
  }
}

}  // namespace spillway::cuda
