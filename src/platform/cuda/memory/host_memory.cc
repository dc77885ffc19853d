// See host_memory.h.
#include "platform/cuda/memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "platform/common/process/service_thread.h"

namespace spillway::cuda {
namespace {

// A refusal may pass: others pin memory as well.
constexpr int kTries = 20;
constexpr std::chrono::milliseconds kBetweenTries{20};
// Pages of so many pieces are made present, the one that is registered next among them: each of the
// threads that do it has one under way and one done.
constexpr Bytes kPiecesAhead = 8;
// Of what the system can spare, so much is taken before it is asked again: other processes ask as
// well, and all might be answered before any of them has taken anything.
constexpr Bytes kGrantedPart = 8;
// Until the system is asked again for memory that it could not spare.
constexpr std::chrono::milliseconds kBetweenGrants{50};

}  // namespace

Result<std::unique_ptr<HostMemory>> HostMemory::make(const Driver& driver, CuContext context,
                                                     Options options) {
  Result<Reservation> memory = Reservation::make(std::max(options.most_bytes, kBlockBytes));
  if (!memory) {
    return tl::unexpected<Error>(memory.error());
  }
  ::madvise(memory->start(), memory->bytes(), MADV_HUGEPAGE);
  // A child of a fork has no use for it, and copying it on write would part it from the device.
  ::madvise(memory->start(), memory->bytes(), MADV_DONTFORK);
  return std::unique_ptr<HostMemory>(
      new HostMemory(driver, context, std::move(options), std::move(*memory)));
}

HostMemory::HostMemory(const Driver& driver, CuContext context, Options options, Reservation memory)
    : driver_(&driver),
      context_(context),
      options_(std::move(options)),
      memory_(std::move(memory)),
      pages_(memory_.start(), options_.most_bytes, options_.piece_bytes),
      thread_(service_thread("spw-cuda-pin", [this] { work(); })) {}

HostMemory::~HostMemory() { stop(); }

void HostMemory::want(Bytes bytes) {
  {
    const MutexLock lock(mutex_);
    if (bytes <= wanted_bytes_) {
      return;
    }
    wanted_bytes_ = bytes;
  }
  wanted_.notify_one();
}

void HostMemory::work() {
  (void)driver_->context_set_current(context_);
  stay_out_of_captures(*driver_);
  MutexLock lock(mutex_);
  int refused = 0;
  while (!stop_) {
    if (registered_bytes_ >= std::min(wanted_bytes_, options_.most_bytes)) {
      mutex_.wait(wanted_);
      continue;
    }
    const Bytes wanted_bytes = wanted_bytes_;
    lock.unlock();
    if (!grant()) {
      lock.lock();
      mutex_.wait_for(wanted_, kBetweenGrants,
                      [this]() SPILLWAY_REQUIRES(mutex_) { return stop_; });
      continue;
    }
    const Bytes bytes = std::min(options_.piece_bytes, options_.most_bytes - registered_bytes_);
    const CuResult result = register_next(wanted_bytes, bytes);
    if (result == CuResult::kSuccess) {
      const std::uint64_t at = registered_bytes_ / options_.piece_bytes * 2 * options_.piece_bytes;
      registered_bytes_ += bytes;
      refused = 0;
      options_.grown(at, bytes);
    } else if (++refused == kTries) {
      pages_.stop();
      give_back_from(registered_bytes_);
      options_.ended({ErrorCode::kUnsupported, error_text(*driver_, "cuMemHostRegister", result)});
    }
    lock.lock();
    if (refused > 0 && !stop_) {
      if (refused >= kTries) {
        mutex_.wait(wanted_, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_; });
      } else {
        mutex_.wait_for(wanted_, kBetweenTries,
                        [this]() SPILLWAY_REQUIRES(mutex_) { return stop_; });
      }
    }
  }
}

// Whether the next piece may be made present and registered, or was granted before.
bool HostMemory::grant() {
  const Bytes spare_bytes =
      options_.spare_bytes ? options_.spare_bytes(registered_bytes_) : memory_.bytes();
  const Bytes piece_bytes = options_.piece_bytes;
  if (spare_bytes >= piece_bytes) {
    const Bytes pieces =
        std::clamp(options_.spare_bytes ? spare_bytes / kGrantedPart / piece_bytes : kPiecesAhead,
                   Bytes{1}, kPiecesAhead);
    granted_bytes_ = std::max(granted_bytes_, registered_bytes_ + pieces * piece_bytes);
  }
  const bool is_short = granted_bytes_ <= registered_bytes_;
  if (is_short != short_ && options_.is_short) {
    options_.is_short(is_short);
  }
  short_ = is_short;
  return !is_short;
}

CuResult HostMemory::register_next(Bytes wanted_bytes, Bytes bytes) {
  pages_.want(std::min(wanted_bytes, granted_bytes_));
  pages_.wait_for(registered_bytes_ / options_.piece_bytes);
  return driver_->host_register(memory_.start() + registered_bytes_, bytes,
                                kCuHostRegisterPortable);
}

// Nobody makes pages present any more, and none is registered from there on.
void HostMemory::give_back_from(Bytes at) {
  ::madvise(memory_.start() + at, memory_.bytes() - at, MADV_DONTNEED);
}

void HostMemory::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
  pages_.stop();
}

void HostMemory::unregister() {
  stop();
  for (Bytes at = 0; at < registered_bytes_; at += options_.piece_bytes) {
    (void)driver_->host_unregister(memory_.start() + at);
  }
  registered_bytes_ = 0;
  give_back_from(0);
}

}  // namespace spillway::cuda
