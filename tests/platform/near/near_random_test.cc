// Seeded random schedules of the near device: threads copy, launch, switch modes, allocate and
// free, storage fails now and then, and every byte is what a plain model of it says.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "base/rng.h"
#include "platform/near/near_world.h"

namespace spillway::near::test {
namespace {

constexpr std::uint32_t kScheduleChannels = 2;

// Every so many requests fail, by a seed.
class UnreliableIo final : public BlockIo {
 public:
  UnreliableIo(std::unique_ptr<BlockIo> real, std::atomic<std::uint64_t>& seed)
      : real_(std::move(real)), seed_(seed) {}
  void submit(IoRequest request) override {
    if (Rng(seed_++).chance(0.02)) {
      request.done(EIO);
    } else {
      real_->submit(std::move(request));
    }
  }

 private:
  std::unique_ptr<BlockIo> real_;
  std::atomic<std::uint64_t>& seed_;
};

struct Modelled {
  Location at;
  std::uint32_t channel = 0;                // of near memory
  std::vector<char> bytes;                  // what is there
  bool known = true;                        // a copy that failed in the middle leaves anything
  std::unique_ptr<std::vector<char>> host;  // the memory itself, if it is the host's
};

// One thread's memory and what it does with it. The channels are everybody's.
class Actor {
 public:
  Actor(Device& device, std::uint32_t storage, std::uint64_t seed)
      : device_(device), storage_(storage), rng_(seed) {}

  void act(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      const std::uint64_t what = rng_.below(100);
      if (memory_.size() < 4 || what < 10) {
        allocate();
      } else if (what < 15) {
        free(rng_.below(memory_.size()));
      } else if (what < 30) {
        switch_mode();
      } else if (what < 50) {
        launch(any());
      } else {
        copy(any(), any());
      }
    }
  }
  // With all channels in normal mode.
  void check_all() {
    for (const Modelled& one : memory_) check(one);
  }
  void free_all() {
    while (!memory_.empty()) {
      const Status freed = release(memory_.back());
      ASSERT_TRUE(freed) << freed.error().message;
      memory_.pop_back();
    }
  }
  // How often something was done, so that a test that does nothing is seen.
  int copies = 0;
  int kernels = 0;
  int refusals = 0;
  int failures = 0;

 private:
  Modelled& any() { return memory_[rng_.below(memory_.size())]; }
  bool in_acceleration(const Error& error) {
    refusals += 1;
    return error.code == ErrorCode::kMode;
  }

  void allocate() {
    Modelled fresh;
    const Bytes bytes = 1 + rng_.below(rng_.chance(0.3) ? 300'000 : 9'000);
    const auto side = static_cast<Side>(rng_.below(kSides));
    if (side == Side::kHost) {
      fresh.host = std::make_unique<std::vector<char>>(bytes);
      fresh.at = at_host(fresh.host->data());
    } else {
      fresh.channel = static_cast<std::uint32_t>(rng_.below(kScheduleChannels));
      Result<Address> start =
          side == Side::kNear
              ? device_.allocate(bytes, fresh.channel).map([](char* at) { return address_of(at); })
          : side == Side::kGpu ? device_.allocate_on_gpu(bytes)
                               : device_.allocate_on_storage(bytes, storage_);
      if (!start) {
        ASSERT_EQ(start.error().code, ErrorCode::kNoRoom) << start.error().message;
        refusals += 1;
        return;
      }
      fresh.at = {side, *start};
    }
    fresh.bytes.resize(bytes);
    fresh.known = side == Side::kHost || side == Side::kNear;  // zeros
    memory_.push_back(std::move(fresh));
  }

  Status release(const Modelled& one) {
    return one.host != nullptr ? Status{} : device_.free(one.at);
  }
  void free(std::size_t which) {
    const Status freed = release(memory_[which]);
    if (!freed) {  // a kernel of this thread uses it
      ASSERT_EQ(freed.error().code, ErrorCode::kBusy) << freed.error().message;
      refusals += 1;
      return;
    }
    std::swap(memory_[which], memory_.back());
    memory_.pop_back();
  }

  void switch_mode() {
    const auto channel = static_cast<std::uint32_t>(rng_.below(kScheduleChannels));
    if (rng_.chance(0.3)) {
      ASSERT_TRUE(device_.synchronize(channel));
    }
    const Status set =
        device_.set_mode(channel, rng_.chance(0.5) ? Mode::kNormal : Mode::kAcceleration);
    if (!set) {
      ASSERT_EQ(set.error().code, ErrorCode::kBusy) << set.error().message;
      refusals += 1;
    }
  }

  void launch(Modelled& one) {
    if (one.at.side != Side::kNear || !one.known) {
      return;
    }
    const auto key = static_cast<char>(rng_.next());
    char* const seen = device_.as_kernel(one.channel, one.at.address);
    const std::array<Span, 1> uses{{{one.at.address, one.bytes.size()}}};
    const Result<KernelTicket> kernel =
        device_.launch(one.channel, std::make_unique<CallKernel>([seen, key, n = one.bytes.size()] {
                         for (std::size_t i = 0; i < n; ++i) {
                           seen[i] = static_cast<char>(seen[i] ^ key ^ static_cast<char>(i));
                         }
                         return Status{};
                       }),
                       uses);
    if (!kernel) {
      ASSERT_TRUE(in_acceleration(kernel.error())) << kernel.error().message;
      return;
    }
    for (std::size_t i = 0; i < one.bytes.size(); ++i) {
      one.bytes[i] = static_cast<char>(one.bytes[i] ^ key ^ static_cast<char>(i));
    }
    kernels += 1;
    if (rng_.chance(0.3)) {
      ASSERT_TRUE(device_.wait(*kernel));
    } else {
      ASSERT_TRUE(device_.poll(*kernel));
    }
  }

  void copy(Modelled& to, Modelled& from) {
    if (&to == &from) {
      check(to);
      return;
    }
    if (!from.known) {
      refresh(from);
      return;
    }
    const Bytes from_offset = rng_.chance(0.5) ? 0 : rng_.below(from.bytes.size());
    const Bytes to_offset = rng_.chance(0.5) ? 0 : rng_.below(to.bytes.size());
    const Bytes most = std::min(from.bytes.size() - from_offset, to.bytes.size() - to_offset);
    const Bytes bytes = rng_.chance(0.5) ? most : 1 + rng_.below(most);
    const Status copied = device_.copy({to.at.side, to.at.address + to_offset},
                                       {from.at.side, from.at.address + from_offset}, bytes);
    if (took_place(copied, to)) {
      std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                  to.bytes.begin() + static_cast<std::ptrdiff_t>(to_offset));
    }
  }

  // All of it is written anew.
  void refresh(Modelled& one) {
    std::vector<char> values(one.bytes.size());
    std::generate(values.begin(), values.end(), [&] { return static_cast<char>(rng_.next()); });
    if (took_place(device_.copy(one.at, at_host(values.data()), values.size()), one)) {
      one.bytes = std::move(values);
      one.known = true;
    }
  }

  // Whether bytes have been copied into `to`.
  bool took_place(const Status& copied, Modelled& to) {
    if (copied) {
      copies += 1;
      return true;
    }
    if (copied.error().code == ErrorCode::kIo) {
      failures += 1;
      to.known = false;
    } else {
      EXPECT_TRUE(in_acceleration(copied.error())) << copied.error().message;
    }
    return false;
  }

  void check(const Modelled& one) {
    if (!one.known) {
      return;
    }
    std::vector<char> there(one.bytes.size());
    const Status copied = device_.copy(at_host(there.data()), one.at, there.size());
    if (copied) {
      ASSERT_TRUE(there == one.bytes) << "on side " << index_of(one.at.side);
    } else if (copied.error().code == ErrorCode::kIo) {
      failures += 1;
    } else {
      ASSERT_TRUE(in_acceleration(copied.error())) << copied.error().message;
    }
  }

  Device& device_;
  std::uint32_t storage_;
  Rng rng_;
  std::vector<Modelled> memory_;
};

class NearSchedules : public NearWorld {};

TEST_F(NearSchedules, EveryByteIsWhatTheModelSays) {
  constexpr std::uint64_t kSeeds = 12;
  constexpr std::size_t kActors = 4;
  std::atomic<std::uint64_t> io_seed{0};
  options.channel_bytes = 2 * kMiB;  // full now and then
  options.wrap_storage = [&](std::unique_ptr<BlockIo> real) {
    return std::make_unique<UnreliableIo>(std::move(real), io_seed);
  };
  int copies = 0;
  int kernels = 0;
  int refusals = 0;
  int failures = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    options.check_access = seed % 2 == 0;
    io_seed = seed << 32U;
    start();
    std::vector<std::unique_ptr<Actor>> actors;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kActors; ++t) {
      actors.push_back(std::make_unique<Actor>(*device, storage, seed * 1000 + t));
    }
    for (const std::unique_ptr<Actor>& actor : actors) {
      threads.emplace_back([&actor] { actor->act(250); });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::uint32_t channel = 0; channel < kScheduleChannels; ++channel) {
      ASSERT_TRUE(device->synchronize(channel));
      normal(channel);
    }
    for (const std::unique_ptr<Actor>& actor : actors) {
      actor->check_all();
      actor->free_all();
      copies += actor->copies;
      kernels += actor->kernels;
      refusals += actor->refusals;
      failures += actor->failures;
    }
    for (std::uint32_t channel = 0; channel < kScheduleChannels; ++channel) {
      EXPECT_EQ(device->channel_statistics(channel)->free_bytes, options.channel_bytes);
    }
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(copies, 1000);
  EXPECT_GT(kernels, 100);
  EXPECT_GT(refusals, 100);
  EXPECT_GT(failures, 10);
}

}  // namespace
}  // namespace spillway::near::test
