// One channel of the near device: its memory, who may use it, and the kernels that run beside it,
// one after the other. Layer: platform, near. Thread-safe. What fails says so in one line and has
// changed nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "platform/near/kernel.h"
#include "platform/near/memory/channel_memory.h"
#include "platform/near/memory/location.h"

namespace spillway::near {

// The arbiter's: whose requests reach the memory.
enum class Mode : std::uint8_t {
  kNormal,        // the host's
  kAcceleration,  // the kernels'
};

struct ChannelStatistics {
  Bytes bytes = 0;  // of memory
  Bytes free_bytes = 0;
  std::uint64_t kernels = 0;  // that have ended
  std::uint64_t kernels_failed = 0;
  TimeNs kernel_ns = 0;  // that a kernel ran
  std::uint64_t mode_switches = 0;
  TimeNs waited_ns = 0;  // for kernels, of all threads together
};

// Memory that a kernel reads or writes.
struct Span {
  Address start = 0;
  Bytes bytes = 0;
};

class Channel {
 public:
  // The channel's number, from 0 on. kNoRoom.
  static Result<std::unique_ptr<Channel>> open(std::uint32_t number, Bytes bytes,
                                               bool check_access);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  // When all kernels have ended.
  ~Channel();

  // In either mode: they touch nothing that is in use.
  Result<char*> allocate(Bytes bytes);
  Status free(Address start);

  // kBusy: a kernel has not ended, or a copy has not.
  Status set_mode(Mode mode);
  [[nodiscard]] Mode mode() const;

  // The host's hold on some of the memory, for a copy.
  class HostUse {
   public:
    HostUse() = default;
    HostUse(Channel* channel, Address allocation) : channel_(channel), allocation_(allocation) {}
    HostUse(HostUse&& other) noexcept;
    HostUse& operator=(HostUse&& other) noexcept;
    HostUse(const HostUse&) = delete;
    HostUse& operator=(const HostUse&) = delete;
    ~HostUse();

   private:
    Channel* channel_ = nullptr;
    Address allocation_ = 0;
  };
  // kMode: in acceleration mode; kInvalidInput: not all of it is in one allocation.
  Result<HostUse> use_as_host(Address start, Bytes bytes);

  // Runs behind those that were launched before; the number is its own, from 1 on. It holds the
  // allocations of `uses` until it has ended. kMode: in normal mode; kInvalidInput: some of `uses`
  // is not in one allocation.
  Result<std::uint64_t> launch(std::unique_ptr<Kernel> kernel, std::span<const Span> uses);
  // Returns when it has ended, with its outcome. kInvalidInput: none has that number.
  Status wait(std::uint64_t kernel);
  // Whether it has ended; an error is its outcome.
  Result<bool> poll(std::uint64_t kernel) const;
  // For those that have been launched until now.
  void wait_for_all();
  [[nodiscard]] bool idle() const;

  // As the kernel sees them.
  [[nodiscard]] char* as_kernel(Address address) const { return memory_->as_kernel(address); }
  [[nodiscard]] bool has(Address address) const { return memory_->has(address); }
  [[nodiscard]] Address start() const { return memory_->start(); }
  [[nodiscard]] ChannelStatistics statistics() const;

 private:
  struct Launched {
    std::unique_ptr<Kernel> kernel;
    std::vector<Address> allocations;
  };
  struct Freed {
    void operator()(std::byte* memory) const { std::free(memory); }  // NOLINT(*-no-malloc)
  };

  Channel(std::uint32_t number, std::unique_ptr<ChannelMemory> memory);
  void work();
  [[nodiscard]] Status known(std::uint64_t kernel) const SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Status outcome(std::uint64_t kernel) const SPILLWAY_REQUIRES(mutex_);
  void end_host_use(Address allocation);

  const std::uint32_t number_;
  const std::unique_ptr<ChannelMemory> memory_;
  const std::unique_ptr<std::byte, Freed> on_chip_;
  mutable Mutex mutex_;
  std::condition_variable launched_more_;
  std::condition_variable ended_one_;
  Mode mode_ SPILLWAY_GUARDED_BY(mutex_) = Mode::kNormal;
  std::uint32_t host_uses_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::deque<Launched> queue_ SPILLWAY_GUARDED_BY(mutex_);  // the first one runs
  std::uint64_t launched_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::uint64_t ended_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Error> failures_ SPILLWAY_GUARDED_BY(mutex_);
  ChannelStatistics sums_ SPILLWAY_GUARDED_BY(mutex_);
  bool closing_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread worker_;
};

}  // namespace spillway::near
