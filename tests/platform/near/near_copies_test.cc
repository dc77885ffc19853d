// Copies of the near device: from every side to every side, whatever their size and alignment, and
// what is refused or fails.
#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/rng.h"
#include "platform/common/held_io.h"
#include "platform/near/near_world.h"

namespace spillway::near::test {
namespace {

constexpr std::array kAllSides{Side::kHost, Side::kNear, Side::kGpu, Side::kStorage};
constexpr Bytes kEach = kBlockBytes + 20 * kPageBytes;  // more than what is moved at once
constexpr Bytes kMargin = 2 * kPageBytes;

class NearCopies : public NearWorld {
 protected:
  // Memory of `kEach` bytes on that side, the second one elsewhere than the first.
  Location make(Side side, std::uint32_t which) {
    switch (side) {
      case Side::kHost:
        hosts.push_back(std::make_unique<std::vector<char>>(kEach));
        return at_host(hosts.back()->data());
      case Side::kNear:
        return at_near(near_memory(kEach, which));
      case Side::kGpu:
        return at_gpu(gpu_memory(kEach));
      case Side::kStorage:
        break;
    }
    return at_storage(place(kEach));
  }
  static Location behind(Location location, Bytes bytes) {
    return {location.side, location.address + bytes};
  }
  void must_copy(Location to, Location from, Bytes bytes) const {
    const Status copied = device->copy(to, from, bytes);
    ASSERT_TRUE(copied) << copied.error().message;
  }
  std::vector<char> read_back(Location from, Bytes bytes) const {
    std::vector<char> bytes_read(bytes);
    must_copy(at_host(bytes_read.data()), from, bytes);
    return bytes_read;
  }

  std::vector<std::unique_ptr<std::vector<char>>> hosts;
};

std::vector<char> near_noise(std::uint64_t seed, Bytes bytes) {
  Rng rng(seed);
  std::vector<char> values(bytes);
  std::generate(values.begin(), values.end(), [&] { return static_cast<char>(rng.next()); });
  return values;
}

// All bytes of both ends are looked at: those before and behind the copied ones stay.
TEST_F(NearCopies, FromEverySideToEverySide) {
  constexpr Bytes kLong = kEach - 2 * kMargin;
  constexpr std::array<std::array<Bytes, 3>, 7> kShapes{{{0, 0, kEach},
                                                         {1, 3, kLong},
                                                         {4096, 8192, kLong},
                                                         {4096, 1, kBlockBytes + kPageBytes},
                                                         {17, 4096, 4096},
                                                         {4090, 4090, 12},
                                                         {5, 4095, 1}}};
  for (const Side from_side : kAllSides) {
    for (const Side to_side : kAllSides) {
      SCOPED_TRACE(testing::Message() << index_of(from_side) << " to " << index_of(to_side));
      start();
      const Location from = make(from_side, 0);
      const Location to = make(to_side, 1);
      std::vector<char> wanted = near_noise(1, kEach);
      const std::vector<char> source = near_noise(2, kEach);
      must_copy(to, at_host(wanted.data()), kEach);
      must_copy(from, at_host(source.data()), kEach);
      const auto route = [&] {
        return device->statistics().copied_bytes[index_of(from_side)][index_of(to_side)];
      };
      for (const auto& [from_offset, to_offset, bytes] : kShapes) {
        const Bytes before = route();
        must_copy(behind(to, to_offset), behind(from, from_offset), bytes);
        EXPECT_EQ(route() - before, bytes);
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                    wanted.begin() + static_cast<std::ptrdiff_t>(to_offset));
        ASSERT_TRUE(read_back(to, kEach) == wanted) << from_offset << " " << to_offset;
      }
      EXPECT_TRUE(read_back(from, kEach) == source);
    }
  }
}

TEST_F(NearCopies, WholePagesOfNearMemoryGoStraightToStorage) {
  const Location near = make(Side::kNear, 0);
  const Location place = make(Side::kStorage, 0);
  must_copy(place, near, kEach);
  must_copy(near, place, kEach);
  EXPECT_EQ(device->statistics().staged_bytes, 0U);
  must_copy(behind(place, 4096), behind(near, 1), kMiB);
  EXPECT_EQ(device->statistics().staged_bytes, kMiB);
  must_copy(make(Side::kGpu, 0), place, kEach);
  EXPECT_EQ(device->statistics().staged_bytes, kMiB + kEach);
  EXPECT_EQ(device->statistics().copies, 4U);
}

TEST_F(NearCopies, FreshNearMemoryReadsAsZerosAndFreshPlacesAsAnything) {
  const std::vector<char> noise = near_noise(3, kEach);
  const std::vector<char> zeros(kEach);
  char* const first = near_memory(kEach);
  EXPECT_TRUE(read_back(at_near(first), kEach) == zeros);
  must_copy(at_near(first), at_host(noise.data()), kEach);
  ASSERT_TRUE(device->free(at_near(first)));
  EXPECT_EQ(device->channel_statistics(0)->free_bytes, 8 * kMiB);
  EXPECT_TRUE(read_back(at_near(near_memory(kEach)), kEach) == zeros);
  EXPECT_EQ(read_back(at_storage(place(kEach)), kEach).size(), kEach);
}

// A page of a place has bytes of several threads: none undoes another's.
TEST_F(NearCopies, ThreadsWriteDifferentBytesOfAPageOfStorage) {
  constexpr Bytes kPart = 100;
  constexpr std::size_t kWriters = 4;
  const Address at = place(kWriters * kPart);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 30; ++round) {
        const std::vector<char> mine(kPart,
                                     static_cast<char>(t * 50 + static_cast<std::size_t>(round)));
        must_copy(at_storage(at + t * kPart), at_host(mine.data()), kPart);
        EXPECT_EQ(read_back(at_storage(at + t * kPart), kPart), mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NearCopies, RefusesWhatIsNotThere) {
  char* const near = near_memory(kEach);
  const Location from = at_near(near);
  std::vector<char> host(kEach + 1);
  const Location to = at_host(host.data());
  expect_refused(device->copy(to, from, kEach + 1), ErrorCode::kInvalidInput, "beyond the end");
  expect_refused(device->copy(to, behind(from, kEach), 1), ErrorCode::kInvalidInput,
                 "in no allocation");
  expect_refused(device->copy(to, at_near(host.data()), 1), ErrorCode::kInvalidInput,
                 "not memory of this near device");
  expect_refused(device->copy(to, at_host(near), 1), ErrorCode::kInvalidInput, "copy it as such");
  expect_refused(device->copy(at_host(nullptr), from, 1), ErrorCode::kInvalidInput, "NULL");
  expect_refused(device->copy(at_host(near - 1), from, 2), ErrorCode::kInvalidInput,
                 "reach into near memory");
  expect_refused(device->copy(at_near(near + 1), from, 2), ErrorCode::kInvalidInput, "overlap");
  expect_refused(device->copy(to, from, ~Bytes{0}), ErrorCode::kInvalidInput, "nothing holds");
  expect_refused(device->copy(to, at_storage(7), 1), ErrorCode::kInvalidInput, "storage");
  const Address on_gpu = gpu_memory(10);
  expect_refused(device->copy(at_gpu(on_gpu + 5), to, 6), ErrorCode::kInvalidInput,
                 "GPU memory: 6 bytes");
  EXPECT_TRUE(device->copy(at_near(nullptr), at_storage(7), 0));
  EXPECT_EQ(device->statistics().copies, 0U);
}

// Memory of the GPU that somebody else has allocated.
TEST_F(NearCopies, GpuMemoryOfTheProgramsOwn) {
  FakeGpu other(gpu);
  const Address theirs = *other.allocate(10);
  const std::vector<char> noise = near_noise(4, 10);
  must_copy(at_gpu(theirs), at_host(noise.data()), 10);
  EXPECT_EQ(read_back(at_gpu(theirs), 10), noise);
  expect_refused(device->free(at_gpu(theirs)), ErrorCode::kInvalidInput, "GPU memory");
  EXPECT_EQ(gpu->opened, 1);
  ASSERT_TRUE(other.free(theirs));
  (void)gpu_memory(20);
  device.reset();
  EXPECT_TRUE(gpu->blocks.empty()) << "what was allocated by the device goes with it";
}

TEST_F(NearCopies, FreesOnceAndOnlyWhatItHasGiven) {
  char* const near = near_memory(100);
  expect_refused(device->free(at_near(near + 4096)), ErrorCode::kInvalidInput, "no allocation");
  expect_refused(device->free(at_near(this)), ErrorCode::kInvalidInput, "not memory of this");
  expect_refused(device->free(at_host(near)), ErrorCode::kInvalidInput, "program's own");
  ASSERT_TRUE(device->free(at_near(near)));
  expect_refused(device->free(at_near(near)), ErrorCode::kInvalidInput, "freed before");
  const Address first = place(100);
  ASSERT_TRUE(device->free(at_storage(first)));
  const Address second = place(100);
  EXPECT_NE(first, second) << "the number of a place that is gone stays unknown";
  expect_refused(device->free(at_storage(first)), ErrorCode::kInvalidInput, "freed before");
  const Address on_gpu = gpu_memory(100);
  ASSERT_TRUE(device->free(at_gpu(on_gpu)));
  expect_refused(device->free(at_gpu(on_gpu)), ErrorCode::kInvalidInput, "freed before");
}

TEST_F(NearCopies, FullIsSaidAndChangesNothing) {
  char* const most = near_memory(6 * kMiB);
  expect_refused(device->allocate(3 * kMiB, 0), ErrorCode::kNoRoom, "2 MiB of 8 MiB are free");
  EXPECT_NE(near_memory(3 * kMiB, 1), nullptr) << "the other channel has room";
  expect_refused(device->allocate(1, 2), ErrorCode::kInvalidInput, "no channel has the number 2");
  expect_refused(device->allocate(0, 0), ErrorCode::kInvalidInput, "0 bytes");
  expect_refused(device->allocate(~Bytes{0}, 0), ErrorCode::kNoRoom, "1 PiB");
  ASSERT_TRUE(device->free(at_near(most)));
  EXPECT_NE(near_memory(8 * kMiB), nullptr);
  (void)place(60 * kMiB);
  expect_refused(device->allocate_on_storage(5 * kMiB, storage), ErrorCode::kNoRoom,
                 "4 MiB of 64 MiB are free");
  expect_refused(device->allocate_on_storage(1, 9), ErrorCode::kInvalidInput, "no storage");
  expect_refused(device->register_storage("/proc/none/here", 0), ErrorCode::kInvalidInput,
                 "/proc/none/here");
  options.channels = 0;
  expect_refused(Device::open(options), ErrorCode::kInvalidInput, "from 1 to 64 channels");
}

TEST_F(NearCopies, WithoutAGpuItSaysSo) {
  options.open_gpu = [&]() -> Result<std::unique_ptr<GpuMemory>> {
    ++gpu->opened;
    return make_error(ErrorCode::kUnsupported, "no driver here");
  };
  start();
  char byte = 0;
  expect_refused(device->copy(at_gpu(4096), at_host(&byte), 1), ErrorCode::kUnsupported,
                 "no driver here");
  expect_refused(device->allocate_on_gpu(1), ErrorCode::kUnsupported, "no driver here");
  EXPECT_EQ(gpu->opened, 1);
}

// Storage that fails: the copy ends with file, offset and reason; what follows works.
TEST_F(NearCopies, StorageThatFailsInTheMiddle) {
  struct Broken {
    std::atomic<int> until{-1};  // requests; below 0: whole
  };
  class BreakingIo final : public BlockIo {
   public:
    BreakingIo(std::unique_ptr<BlockIo> real, Broken& broken)
        : real_(std::move(real)), broken_(broken) {}
    void submit(IoRequest request) override {
      const int left = broken_.until >= 0 ? broken_.until-- : 1;
      if (left == 0) {
        broken_.until = 0;
        request.done(EIO);
      } else {
        real_->submit(std::move(request));
      }
    }

   private:
    std::unique_ptr<BlockIo> real_;
    Broken& broken_;
  };
  Broken broken;
  options.wrap_storage = [&](std::unique_ptr<BlockIo> real) {
    return std::make_unique<BreakingIo>(std::move(real), broken);
  };
  for (const Side side : kAllSides) {
    for (const bool write : {true, false}) {
      start();
      const Location other = make(side, 0);
      const Location place = make(Side::kStorage, 0);
      const Location to = write ? place : other;
      const Location from = write ? other : place;
      const Bytes before = device->statistics().copies;
      broken.until = 1;
      expect_refused(device->copy(behind(to, 3), behind(from, 3), kEach - 3), ErrorCode::kIo,
                     "bytes at offset");
      EXPECT_THAT(device->copy(to, from, kEach).error().message,
                  testing::AllOf(testing::HasSubstr(SPILLWAY_SOURCE_DIR),
                                 testing::HasSubstr("Input/output error"),
                                 testing::HasSubstr("ended in the middle")));
      EXPECT_EQ(device->statistics().copies, before);
      broken.until = -1;
      const std::vector<char> noise = near_noise(5, kEach);
      must_copy(from, at_host(noise.data()), kEach);
      must_copy(to, from, kEach);
      EXPECT_TRUE(read_back(to, kEach) == noise);
      EXPECT_TRUE(device->free(place)) << "nobody holds it any more";
    }
  }
}

TEST_F(NearCopies, AGpuThatFails) {
  const Location on_gpu = make(Side::kGpu, 0);
  const Location on_storage = make(Side::kStorage, 0);
  int left = 1;
  gpu->fails = [&](Bytes /*bytes*/) { return left-- == 0; };
  expect_refused(device->copy(on_storage, on_gpu, kEach), ErrorCode::kIo, "told to fail");
  gpu->fails = {};
  EXPECT_TRUE(device->free(on_gpu));
  EXPECT_TRUE(device->free(on_storage));
}

// What a copy uses is neither freed nor closed to the host before the copy has ended.
TEST_F(NearCopies, WhatACopyUsesStays) {
  HeldRequests requests;
  options.wrap_storage = held_by(requests);
  start();
  char* const near = near_memory(kPageBytes);
  const Address at = place(kPageBytes);
  std::thread copier([&] { EXPECT_TRUE(device->copy(at_storage(at), at_near(near), kPageBytes)); });
  requests.wait_for(1);
  expect_refused(device->free(at_near(near)), ErrorCode::kBusy, "a copy or a kernel uses");
  expect_refused(device->free(at_storage(at)), ErrorCode::kBusy, "a copy or a kernel uses");
  expect_refused(device->set_mode(0, Mode::kAcceleration), ErrorCode::kBusy,
                 "1 copies have not ended");
  EXPECT_TRUE(device->set_mode(1, Mode::kAcceleration)) << "the other channel is free";
  requests.answer(0, 0);
  copier.join();
  EXPECT_TRUE(device->set_mode(0, Mode::kAcceleration));
  EXPECT_TRUE(device->free(at_near(near)));
  EXPECT_TRUE(device->free(at_storage(at)));
}

}  // namespace
}  // namespace spillway::near::test
