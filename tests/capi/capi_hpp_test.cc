// The C++ header over the C API: what is acquired is given back, errors are exceptions.
// Includes nothing else of Spillway, as a program would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <spillway/spillway.hpp>
#include <utility>
#include <vector>

namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMiB = 1 << 20;

class CapiHppTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spillway::Options options;
    options.deviceBytes = 16 * kMiB;
    options.hostBytes = 64 * kMiB;
    options.policy = "deepum";
    try {
      space_ = std::make_unique<spillway::Space>(options);
    } catch (const spillway::Error& error) {
      ASSERT_EQ(error.code(), spillwayErrorNotSupported) << error.what();
      GTEST_SKIP() << error.what();
    }
  }
  [[nodiscard]] std::uint64_t allocated() const { return space_->statistics().allocatedBytes; }

  std::unique_ptr<spillway::Space> space_;
};

TEST_F(CapiHppTest, BuffersGiveBackWhatTheyOwn) {
  {
    spillway::Buffer<float> a(*space_, kMiB);
    spillway::Buffer<float> b = std::move(a);
    EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): what this is about
    EXPECT_EQ(a.size(), 0U);
    b = spillway::Buffer<float>(*space_, 2 * kMiB);
    EXPECT_EQ(allocated(), 8 * kMiB);
    a = std::move(b);
    EXPECT_EQ(a.size(), 2 * kMiB);
    EXPECT_EQ(allocated(), 8 * kMiB);
    spillway::Buffer<int> none(*space_, 0);
    none.prefetch();
    none.discard();
  }
  EXPECT_EQ(allocated(), 0U);
}

TEST_F(CapiHppTest, LaunchesEndWithTheirScope) {
  std::vector<spillway::Buffer<std::uint32_t>> parts;
  for (int i = 0; i < 4; ++i) parts.emplace_back(*space_, 6 * kMiB / 4);
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const spillway::Launch launch(*space_, "fill", {spillway::overwrite(parts[i])});
      std::iota(parts[i].begin(), parts[i].end(), static_cast<std::uint32_t>(round * 10 + i));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const spillway::Launch launch(*space_, "read", {spillway::read(parts[i])});
      for (std::size_t at = 0; at < parts[i].size(); ++at) {
        ASSERT_EQ(parts[i][at], round * 10 + i + at);
      }
    }
  }
  EXPECT_EQ(space_->statistics().launches, 24U);
  // No launch is left that would keep the memory.
  parts.clear();
  EXPECT_EQ(allocated(), 0U);
}

TEST_F(CapiHppTest, ErrorsAreExceptions) {
  try {
    spillway::Buffer<char> buffer(*space_, 1024 * kMiB);
    FAIL() << "there is not that much memory";
  } catch (const spillway::Error& error) {
    EXPECT_EQ(error.code(), spillwayErrorMemoryAllocation);
    EXPECT_THAT(error.what(), HasSubstr("out of memory"));
  }
  spillway::Buffer<char> buffer(*space_, kMiB);
  EXPECT_THROW(buffer.pre_evict(spillwayTierStorage), spillway::Error);
  EXPECT_THROW(spillway::Buffer<double>(*space_, static_cast<std::size_t>(-1) / 4),
               std::bad_array_new_length);
}

TEST_F(CapiHppTest, StandardContainersLiveInASpace) {
  spillway::MemoryResource resource(*space_);
  spillway::MemoryResource same(*space_);
  EXPECT_EQ(resource, same);
  EXPECT_NE(resource, *std::pmr::new_delete_resource());
  {
    std::pmr::vector<std::uint64_t> numbers(&resource);
    for (std::uint64_t i = 0; i < 3 * kMiB; ++i) numbers.push_back(i * i);
    EXPECT_GE(allocated(), 24 * kMiB);
    for (std::uint64_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i * i);
    EXPECT_THROW(numbers.reserve(1024 * kMiB), std::bad_alloc);
  }
  EXPECT_EQ(allocated(), 0U);
  void* const nothing = resource.allocate(0);
  EXPECT_NE(nothing, nullptr);
  resource.deallocate(nothing, 0);
}

}  // namespace
