// The program's thread: contents that are made again instead of moved. docs/recomputing.md. See
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
  return fingerprints_ != nullptr && !patience_.all_fits() && !quiet_.on &&
         (captures_ == nullptr || *captures_ == 0);
}

void DrivenPlatform::no_more(const Recomputing::Lost& lost) {
  for (const AllocationId id : lost) {
    engine_.set_recomputable(id, false);
  }
}

void DrivenPlatform::born(std::uint64_t address) {
  const bool may_be = recomputes();
  keeps_launches_.store(may_be, std::memory_order_relaxed);
  if (may_be) {
    recomputing_.born(memory_->number_of(address));
  }
}

// --- Deaths and ends ----------------------------------------------------------------------------

void DrivenPlatform::before_death(std::uint64_t address, const Recomputing::Death& death,
                                  Lock& lock) {
  TimeNs sign_ns = now_ns();
  while (!broken_) {
    const std::optional<Recomputing::Step> step =
        recomputing_.before_death(memory_->number_of(address), death);
    if (!step) {
      return;
    }
    carry_out(*step, lock, sign_ns);
  }
}

void DrivenPlatform::dies(AllocationId id) {
  Recomputing::Lost lost;
  recomputing_.dies(id, lost);
  no_more(lost);
}

void DrivenPlatform::remake_all(std::optional<StreamId> stream, Lock& lock) {
  TimeNs sign_ns = now_ns();
  while (!broken_) {
    const std::optional<Recomputing::Step> step = recomputing_.before_end(stream);
    if (!step) {
      break;
    }
    carry_out(*step, lock, sign_ns);
  }
  Recomputing::Lost lost;
  recomputing_.end(stream, lost);
  no_more(lost);
}

void DrivenPlatform::code_ends() {
  Lock lock(mutex_);
  remake_all(std::nullopt, lock);
}

// --- What launches make -------------------------------------------------------------------------

// The launch is issued next; what it makes can be made again if nothing else is known of that.
void DrivenPlatform::keep(const CudaLaunch& launch, std::span<const Access> accesses,
                          StreamId stream) {
  const auto makes_new = [this](const Access& access) {
    return writes(access.mode) && recomputing_.is_new(access.allocation) &&
           !engine_.space().allocation(access.allocation).packed;
  };
  const bool wanted = launch.keep && recomputes() && may_be_quiet_on(launch.stream) &&
                      std::any_of(accesses.begin(), accesses.end(), makes_new);
  const std::uint64_t number = launches_.stream(stream).issued;
  Recomputing::Lost lost;
  recomputing_.issued(accesses, stream, number, lost);
  no_more(lost);
  if (!wanted) {
    return;
  }
  Recomputing::Maker maker{.kept = launch.keep(),
                           .stream = stream,
                           .number = number,
                           .hash = hash_of("again", launch.hash.first, launch.hash.second),
                           .name = fmt::format("again: {}", launch.name)};
  const AllocationId made = memory_->number_of(maker.kept.makes.address);
  const Bytes made_bytes = maker.kept.makes.bytes;
  Bytes read_bytes = 0;
  for (const CudaOperand& operand : launch.operands) {
    const AllocationId id = memory_->number_of(operand.address);
    if (id != made) {
      read_bytes += operand.bytes;
      maker.reads.push_back(operand);
      maker.read_ids.push_back(id);
    }
  }
  // What must be there for it may have to be brought for it alone.
  constexpr Bytes kMostTimes = 2;
  constexpr Bytes kMorePart = 16;
  if (read_bytes <= kMostTimes * made_bytes + made_bytes / kMorePart) {
    recomputing_.made(made, std::move(maker));
  }
}

void DrivenPlatform::look_at_steps() {
  if (!recomputing_.looks()) {
    return;
  }
  std::vector<AllocationId> sure;
  Recomputing::Lost lost;
  recomputing_.look(sure, lost);
  no_more(lost);
  for (const AllocationId id : sure) {
    engine_.set_recomputable(id, true);
  }
}

// --- Steps --------------------------------------------------------------------------------------

// One launch of a step, in its context, without the lock. The number that it has on its stream.
template <typename Call>
Result<std::uint64_t> DrivenPlatform::put(const Recomputing::Step& step,
                                          std::span<const CudaOperand> operands,
                                          std::string_view name, LaunchHash hash, CuStream stream,
                                          const Call& call) {
  const std::uint64_t launch =
      issue({.stream = stream, .hash = hash, .name = name, .operands = operands}, step.id);
  if (launch == 0) {
    return make_error(ErrorCode::kUnsupported, "the run is ending");
  }
  const CuResult result = queue_->times().of(
      step.what == What::kRemake ? WorkTimes::What::kRemake : WorkTimes::What::kFingerprint, call);
  const std::uint64_t number = number_of(launch);
  after_launch(launch, result == CuResult::kSuccess);
  if (result != CuResult::kSuccess) {
    return make_error(ErrorCode::kUnsupported, "{}",
                      error_text(driver_, "a launch of Spillway's own", result));
  }
  return number;
}

Result<std::uint64_t> DrivenPlatform::put_fill(const Recomputing::Step& step,
                                               const KeptLaunch& kept, CuStream stream,
                                               std::uint32_t pattern) {
  CudaOperand made = kept.makes;
  made.mode = AccessMode::kOverwrite;
  return put(step, {&made, 1}, "pattern", hash_of("pattern", made.address, made.bytes), stream,
             [&] { return options_.own_launches.fill(stream, made.address, made.bytes, pattern); });
}

Result<std::uint64_t> DrivenPlatform::put_fingerprint(const Recomputing::Step& step,
                                                      const KeptLaunch& kept, CuStream stream,
                                                      std::uint64_t* words) {
  CudaOperand made = kept.makes;
  made.mode = AccessMode::kRead;
  return put(
      step, {&made, 1}, "fingerprint", hash_of("fingerprint", made.address, made.bytes), stream,
      [&] { return options_.own_launches.fingerprint(stream, made.address, made.bytes, words); });
}

Result<std::uint64_t> DrivenPlatform::put_maker(const Recomputing::Step& step,
                                                const Recomputing::Maker& maker, CuStream stream) {
  std::vector<CudaOperand> operands = maker.reads;
  operands.push_back(maker.kept.makes);
  operands.back().mode = AccessMode::kOverwrite;
  return put(step, operands, maker.name, maker.hash, stream,
             [&] { return maker.kept.how->launch(stream); });
}

// Over two patterns of which no byte is the same: if it leaves the same behind, it writes every
// byte.
Result<std::uint64_t> DrivenPlatform::put_trial(const Recomputing::Step& step,
                                                const Recomputing::Maker& maker, CuStream stream,
                                                std::uint64_t* first, std::uint64_t* second,
                                                bool* overwritten) {
  constexpr std::uint32_t kPattern = 0x5bd1e995;
  Result<std::uint64_t> number = 0;
  for (const auto& [pattern, words] : {std::pair{kPattern, first}, std::pair{~kPattern, second}}) {
    number = put_fill(step, maker.kept, stream, pattern);
    *overwritten |= number.has_value();
    number = number ? put_maker(step, maker, stream) : number;
    number = number ? put_fingerprint(step, maker.kept, stream, words) : number;
    if (!number) {
      break;
    }
  }
  return number;
}

// What is known when it returns is to be asked anew. `sign_ns`: wait_a_little's.
void DrivenPlatform::carry_out(const Recomputing::Step& step, Lock& lock, TimeNs& sign_ns) {
  if (step.what == What::kWait) {
    const Held held(*this, WorkTimes::What::kHeldForRemake);
    put_tickets(lock);
    queue_->wake();
    wait_a_little(lock, sign_ns);
    take_ends();
    return;
  }
  Recomputing::Lost lost;
  if (!recomputing_.begin(step, lost)) {
    no_more(lost);
    return;
  }
  const Recomputing::Maker maker = recomputing_.maker(step.id);
  const DeviceLaunches::Stream& stream = launches_.stream(step.stream);
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  const bool marks = step.what != What::kRemake;
  std::uint64_t* const first =
      marks ? fingerprints_ + recomputing_.words_of(step.id, false) : nullptr;
  std::uint64_t* const second =
      marks ? fingerprints_ + recomputing_.words_of(step.id, true) : nullptr;
  lock.unlock();
  Result<std::uint64_t> number = 0;
  bool overwritten = step.what == What::kRemake;
  const CuResult entered = in_context(context, [&] {
    switch (step.what) {
      case What::kTry:
        number = put_trial(step, maker, handle, first, second, &overwritten);
        break;
      case What::kMark:
        number = put_fingerprint(step, maker.kept, handle, first);
        break;
      case What::kCompare:
        number = put_fingerprint(step, maker.kept, handle, second);
        break;
      case What::kRemake:
      case What::kWait:
        number = put_maker(step, maker, handle);
        break;
    }
    return CuResult::kSuccess;
  });
  lock.lock();
  if (entered == CuResult::kSuccess && number) {
    recomputing_.done(step, *number);
  } else {
    recomputing_.refused(step, lost);
    no_more(lost);
    if (overwritten) {
      bytes_are_nowhere(context, number ? "its context is gone" : number.error().message);
    }
  }
  changed_.notify_all();
}

// Unless all that its context has is lost.
void DrivenPlatform::bytes_are_nowhere(CuContext context, std::string_view why) {
  if (!broken_ && !launches_.is_lost(context)) {
    broken_ = true;
    failures_.fatal({ErrorCode::kUnsupported,
                     fmt::format("what was given up could not be made again: {}", why)});
  }
}

}  // namespace spillway::cuda
