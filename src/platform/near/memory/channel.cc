// See channel.h.
#include "platform/near/memory/channel.h"

#include <cfenv>
#include <exception>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/service_thread.h"

namespace spillway::near {
namespace {

constexpr std::size_t kLineBytes = 64;

Status outcome_of(Kernel& kernel, std::span<std::byte> on_chip) {
  try {
    return kernel.run(on_chip);
  } catch (const std::exception& exception) {
    return make_error(ErrorCode::kDefect, "the kernel has thrown: {}", exception.what());
  }
}

}  // namespace

Result<std::unique_ptr<Channel>> Channel::open(std::uint32_t number, Bytes bytes,
                                               bool check_access) {
  Result<std::unique_ptr<ChannelMemory>> memory = ChannelMemory::make(number, bytes, check_access);
  if (!memory) {
    return tl::unexpected<Error>(memory.error());
  }
  return std::unique_ptr<Channel>(new Channel(number, std::move(*memory)));
}

Channel::Channel(std::uint32_t number, std::unique_ptr<ChannelMemory> memory)
    : number_(number),
      memory_(std::move(memory)),
      on_chip_(static_cast<std::byte*>(std::aligned_alloc(kLineBytes, kOnChipBytes))) {
  if (on_chip_ == nullptr) {
    throw std::bad_alloc();
  }
  worker_ = service_thread(fmt::format("spw-near{}", number).c_str(), [this] { work(); });
}

Channel::~Channel() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  launched_more_.notify_all();
  worker_.join();
}

Result<char*> Channel::allocate(Bytes bytes) {
  const MutexLock lock(mutex_);
  return memory_->allocate(bytes);
}

Status Channel::free(Address start) {
  const MutexLock lock(mutex_);
  return memory_->free(start);
}

// --- Modes --------------------------------------------------------------------------------------

Status Channel::set_mode(Mode mode) {
  const MutexLock lock(mutex_);
  if (mode == mode_) {
    return {};
  }
  if (!queue_.empty()) {
    return make_error(ErrorCode::kBusy,
                      "channel {}: {} kernels have not ended; wait for them before setting the "
                      "channel to normal mode",
                      number_, queue_.size());
  }
  if (host_uses_ > 0) {
    return make_error(ErrorCode::kBusy,
                      "channel {}: {} copies have not ended; set it to acceleration mode when they "
                      "have",
                      number_, host_uses_);
  }
  if (Status done = memory_->open_to_host(mode == Mode::kNormal); !done) {
    return done;
  }
  mode_ = mode;
  ++sums_.mode_switches;
  return {};
}

Mode Channel::mode() const {
  const MutexLock lock(mutex_);
  return mode_;
}

// --- The host -----------------------------------------------------------------------------------

Result<Channel::HostUse> Channel::use_as_host(Address start, Bytes bytes) {
  const MutexLock lock(mutex_);
  if (mode_ == Mode::kAcceleration) {
    return make_error(ErrorCode::kMode,
                      "channel {} is in acceleration mode, in which the host cannot touch {:#x}; "
                      "wait for its kernels and set it to normal mode first",
                      number_, start);
  }
  const Result<Address> allocation = memory_->allocations().hold(start, bytes);
  if (!allocation) {
    return tl::unexpected<Error>(allocation.error());
  }
  ++host_uses_;
  return HostUse(this, *allocation);
}

void Channel::end_host_use(Address allocation) {
  const MutexLock lock(mutex_);
  memory_->allocations().release(allocation);
  --host_uses_;
}

Channel::HostUse::HostUse(HostUse&& other) noexcept
    : channel_(std::exchange(other.channel_, nullptr)), allocation_(other.allocation_) {}

Channel::HostUse& Channel::HostUse::operator=(HostUse&& other) noexcept {
  std::swap(channel_, other.channel_);
  std::swap(allocation_, other.allocation_);
  return *this;
}

Channel::HostUse::~HostUse() {
  if (channel_ != nullptr) {
    channel_->end_host_use(allocation_);
  }
}

// --- Kernels ------------------------------------------------------------------------------------

Result<std::uint64_t> Channel::launch(std::unique_ptr<Kernel> kernel, std::span<const Span> uses) {
  const MutexLock lock(mutex_);
  if (mode_ == Mode::kNormal) {
    return make_error(ErrorCode::kMode,
                      "channel {} is in normal mode, in which no kernel runs; set it to "
                      "acceleration mode before launching one",
                      number_);
  }
  Launched launched{.kernel = std::move(kernel), .allocations = {}};
  for (const Span& use : uses) {
    const Result<Address> allocation = memory_->allocations().hold(use.start, use.bytes);
    if (!allocation) {
      for (const Address held : launched.allocations) {
        memory_->allocations().release(held);
      }
      return tl::unexpected<Error>(allocation.error());
    }
    launched.allocations.push_back(*allocation);
  }
  queue_.push_back(std::move(launched));
  launched_more_.notify_one();
  return ++launched_;
}

void Channel::work() {
  // As a device computes, however the thread that has opened it treats subnormal numbers.
  std::fesetenv(FE_DFL_ENV);
  MutexLock lock(mutex_);
  while (true) {
    mutex_.wait(launched_more_,
                [&]() SPILLWAY_REQUIRES(mutex_) { return closing_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    Kernel& kernel = *queue_.front().kernel;
    lock.unlock();
    const TimeNs begin_ns = now_ns();
    Status outcome = outcome_of(kernel, {on_chip_.get(), kOnChipBytes});
    const TimeNs end_ns = now_ns();
    lock.lock();
    for (const Address allocation : queue_.front().allocations) {
      memory_->allocations().release(allocation);
    }
    queue_.pop_front();
    ++ended_;
    sums_.kernel_ns += end_ns - begin_ns;
    if (!outcome) {
      failures_.emplace(ended_, std::move(outcome.error()));
    }
    ended_one_.notify_all();
  }
}

Status Channel::known(std::uint64_t kernel) const {
  if (kernel == 0 || kernel > launched_) {
    return make_error(ErrorCode::kInvalidInput, "channel {} has launched no kernel with number {}",
                      number_, kernel);
  }
  return {};
}

Status Channel::outcome(std::uint64_t kernel) const {
  const auto failed = failures_.find(kernel);
  return failed == failures_.end() ? Status{} : tl::unexpected<Error>(failed->second);
}

Status Channel::wait(std::uint64_t kernel) {
  const MutexLock lock(mutex_);
  if (Status status = known(kernel); !status) {
    return status;
  }
  const TimeNs begin_ns = now_ns();
  mutex_.wait(ended_one_, [&]() SPILLWAY_REQUIRES(mutex_) { return ended_ >= kernel; });
  sums_.waited_ns += now_ns() - begin_ns;
  return outcome(kernel);
}

Result<bool> Channel::poll(std::uint64_t kernel) const {
  const MutexLock lock(mutex_);
  if (const Status status = known(kernel); !status) {
    return tl::unexpected<Error>(status.error());
  }
  if (const Status status = outcome(kernel); !status) {
    return tl::unexpected<Error>(status.error());
  }
  return ended_ >= kernel;
}

void Channel::wait_for_all() {
  const MutexLock lock(mutex_);
  const TimeNs begin_ns = now_ns();
  mutex_.wait(ended_one_,
              [&, last = launched_]() SPILLWAY_REQUIRES(mutex_) { return ended_ >= last; });
  sums_.waited_ns += now_ns() - begin_ns;
}

bool Channel::idle() const {
  const MutexLock lock(mutex_);
  return queue_.empty();
}

ChannelStatistics Channel::statistics() const {
  const MutexLock lock(mutex_);
  ChannelStatistics now = sums_;
  now.bytes = memory_->bytes();
  now.free_bytes = memory_->free_bytes();
  now.kernels = ended_;
  now.kernels_failed = failures_.size();
  return now;
}

}  // namespace spillway::near
