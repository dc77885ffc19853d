// The program's thread: contents that are made again instead of moved. docs/recomputing.md. See
// driven_platform.h; what is known of them is recomputing.h's.
#include <fmt/format.h>

#include <algorithm>

#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

LaunchHash hash_of_fingerprint(const CudaOperand& of) {
  return hash_launch("fingerprint", {{{.allocation = of.address, .bytes = of.bytes}}});
}

}  // namespace

// Where all fits nothing is given up, and nobody need know anything.
bool DrivenPlatform::recomputes() const {
  return patience_.recomputes() && !patience_.all_fits() &&
         (captures_ == nullptr || *captures_ == 0);
}

void DrivenPlatform::no_more(const Recomputing::Lost& lost) {
  for (const AllocationId id : lost) {
    engine_.set_recomputable(id, false);
  }
}

void DrivenPlatform::born(std::uint64_t address) {
  if (recomputes()) {
    recomputing_.born(memory_->number_of(address));
  }
}

void DrivenPlatform::before_death(std::uint64_t address, Lock& lock) {
  while (!broken_) {
    const std::optional<Recomputing::Step> step =
        recomputing_.before_death(memory_->number_of(address));
    if (!step) {
      return;
    }
    carry_out(*step, lock);
  }
}

void DrivenPlatform::dies(AllocationId id) {
  Recomputing::Lost lost;
  recomputing_.dies(id, lost);
  no_more(lost);
}

void DrivenPlatform::remake_all(std::optional<StreamId> stream, Lock& lock) {
  while (!broken_) {
    const std::optional<Recomputing::Step> step = recomputing_.before_end(stream);
    if (!step) {
      break;
    }
    carry_out(*step, lock);
  }
  Recomputing::Lost lost;
  recomputing_.end(stream, lost);
  no_more(lost);
}

void DrivenPlatform::code_ends() {
  Lock lock(mutex_);
  remake_all(std::nullopt, lock);
}

// The launch is issued next; what it makes can be made again if nothing else is known of that.
void DrivenPlatform::keep(const CudaLaunch& launch, std::span<const Access> accesses,
                          StreamId stream) {
  const auto makes_new = [this](const Access& access) {
    return writes(access.mode) && recomputing_.is_new(access.allocation) &&
           !engine_.space().allocation(access.allocation).packed;
  };
  const bool wanted = launch.keep && recomputes() && may_be_quiet_on(launch.stream) &&
                      std::any_of(accesses.begin(), accesses.end(), makes_new);
  Recomputing::Lost lost;
  recomputing_.issued(accesses, stream, launches_.stream(stream).issued, lost);
  no_more(lost);
  std::optional<KeptLaunch> kept = wanted ? launch.keep() : std::nullopt;
  if (!kept) {
    return;
  }
  Recomputing::Maker maker{
      .how = std::move(kept->how),
      .stream = stream,
      .hash =
          hash_launch("again", {{{.allocation = launch.hash.first, .bytes = launch.hash.second}}}),
      .name = fmt::format("again: {}", launch.name),
      .makes = kept->makes};
  const AllocationId made = memory_->number_of(kept->makes.address);
  const Bytes made_bytes = engine_.space().allocation(made).bytes;
  Bytes read_bytes = 0;
  for (const CudaOperand& operand : launch.operands) {
    const AllocationId id = memory_->number_of(operand.address);
    if (id != made) {
      read_bytes += engine_.space().allocation(id).bytes;
      maker.reads.push_back(operand);
      maker.read_ids.push_back(id);
    }
  }
  maker.kind = hash_launch(launch.name, {{{.allocation = 0, .bytes = made_bytes},
                                          {.allocation = 0, .bytes = read_bytes}}})
                   .first;
  // What must be there for it costs at most twice as much to bring as what it makes, where that is
  // wanted anyway or not.
  constexpr Bytes kMostTimes = 2;
  constexpr Bytes kMorePart = 16;
  if (read_bytes <= kMostTimes * made_bytes + made_bytes / kMorePart) {
    recomputing_.made(made, std::move(maker));
  }
}

void DrivenPlatform::compare_fingerprints() {
  if (!recomputing_.compares()) {
    return;
  }
  std::vector<AllocationId> sure;
  recomputing_.compare(sure);
  for (const AllocationId id : sure) {
    engine_.set_recomputable(id, true);
  }
}

// In the launch's context, without the lock.
CuResult DrivenPlatform::put(const Recomputing::Step& step, const Recomputing::Maker& maker,
                             CuStream stream, std::uint64_t* words, std::uint64_t* number) {
  const bool remake = step.what == Recomputing::Step::What::kRemake;
  CudaOperand made = maker.makes;
  made.mode = remake ? AccessMode::kOverwrite : AccessMode::kRead;
  std::vector<CudaOperand> operands = remake ? maker.reads : std::vector<CudaOperand>();
  operands.push_back(made);
  const std::string_view name = remake ? std::string_view(maker.name) : "fingerprint";
  const std::uint64_t launch = issue({.stream = stream,
                                      .hash = remake ? maker.hash : hash_of_fingerprint(made),
                                      .name = name,
                                      .operands = operands},
                                     true);
  if (launch == 0) {
    return CuResult::kNotReady;  // the run is ending
  }
  const CuResult result =
      queue_->times().of(remake ? WorkTimes::What::kRemake : WorkTimes::What::kFingerprint, [&] {
        return remake ? maker.how->launch(stream)
                      : options_.put_fingerprint(stream, made.address, made.bytes, words);
      });
  *number = number_of(launch);
  after_launch(launch, result == CuResult::kSuccess);
  return result;
}

// What is known when it returns is to be asked anew.
void DrivenPlatform::carry_out(const Recomputing::Step& step, Lock& lock) {
  using What = Recomputing::Step::What;
  if (step.what == What::kWait) {
    const Held held(*this, WorkTimes::What::kHeldForRemake);
    TimeNs sign_ns = now_ns();
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
  const DeviceLaunches::Stream& stream = launches_.stream(maker.stream);
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  std::uint64_t* const words =
      step.what == What::kRemake ? nullptr : fingerprints_ + recomputing_.words_of(step);
  lock.unlock();
  std::uint64_t number = 0;
  const CuResult result =
      in_context(context, [&] { return put(step, maker, handle, words, &number); });
  lock.lock();
  if (result == CuResult::kSuccess) {
    recomputing_.done(step, number);
  } else {
    recomputing_.refused(step, lost);
    no_more(lost);
    if (step.what == What::kRemake && !broken_) {
      stream_failed(maker.stream, context, "a kernel that is launched again", result);
    }
  }
  changed_.notify_all();
}

}  // namespace spillway::cuda
