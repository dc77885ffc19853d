// With the device memory that a run says would have been enough, a second one moves nothing, and
// says that it cost nothing. On the host, and on a GPU for memory that comes in every way.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "platform/host/faults/userfault.h"

// Not with a sanitizer: its libraries are not preloaded.
#ifdef FAKE_CUDA_LIBRARY

namespace spillway::test {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Enough : public ProgramTest {
 protected:
  [[nodiscard]] json record_of(const std::string& memory, const std::string& options,
                               const std::string& program) const {
    const Outcome outcome =
        run(fmt::format("run --device-memory {} {} --json record -- {}", memory, options, program),
            environment_);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    return json::parse(read_file(folder_ / "record"), nullptr, false);
  }
  static std::uint64_t moved(const json& record) {
    std::uint64_t sum = record["evictions"].get<std::uint64_t>() +
                        record["given_up_bytes"].get<std::uint64_t>() +
                        record["far_bytes"].get<std::uint64_t>();
    for (const auto& [route, bytes] : record["moved_bytes"].items()) {
      sum += bytes.get<std::uint64_t>();
    }
    return sum;
  }
  // `little` is less than the program needs.
  void expect_enough(const std::string& little, const std::string& options,
                     const std::string& program) const {
    SCOPED_TRACE(program);
    const json first = record_of(little, options, program);
    ASSERT_TRUE(first.is_object());
    EXPECT_GT(moved(first), 0U);
    const auto enough = first["fits_in_bytes"].get<std::uint64_t>();
    EXPECT_GT(enough, first["peak_bytes"].get<std::uint64_t>());
    const json second = record_of(std::to_string(enough), options, program);
    ASSERT_TRUE(second.is_object());
    EXPECT_EQ(moved(second), 0U) << second["moved_bytes"];
    EXPECT_EQ(second["budget_bytes"]["device"], enough);
  }

  std::string environment_;
};

class EnoughOnGpu : public Enough {
 protected:
  EnoughOnGpu() {
    environment_ = fmt::format("SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}')",
                               FAKE_CUDA_LIBRARY);
  }
};

TEST_F(EnoughOnGpu, WhateverTheMemoryIsFor) {
  for (const char* const scenario : {"patterns", "steps", "graphs", "expandable", "mapped-graphs",
                                     "pools", "temporaries", "crowd", "random 7", "random 36"}) {
    expect_enough("16MiB", "--device cuda --host-memory 512MiB",
                  fmt::format("{} dlopen {}", CUDA_PROGRAM, scenario));
  }
}

TEST_F(EnoughOnGpu, WhoeverDecides) {
  for (const char* const policy : {"base_uvm", "deepum", "g10"}) {
    expect_enough("16MiB", fmt::format("--device cuda --host-memory 512MiB --policy {}", policy),
                  fmt::format("{} dlopen steps", CUDA_PROGRAM));
  }
}

TEST_F(EnoughOnGpu, IsTheLastLineAndFitsTheNextRun) {
  const std::string program = fmt::format("{} dlopen steps", CUDA_PROGRAM);
  const Outcome first = run(
      "run --device cuda --device-memory 16MiB --host-memory 512MiB -- " + program, environment_);
  EXPECT_THAT(lines_of(first.err).back(),
              ContainsRegex("^  enough     with [0-9]+ MiB of device memory nothing would have "
                            "moved$"));
  const std::string last = lines_of(first.err).back();
  const std::size_t at = last.find("with ") + 5;
  const Outcome second =
      run(fmt::format("run --device cuda --device-memory {}MiB --host-memory 512MiB -- {}",
                      last.substr(at, last.find(' ', at) - at), program),
          environment_);
  EXPECT_THAT(second.err, HasSubstr("spillway: everything fit: 100 MiB of "));
  EXPECT_THAT(second.err, Not(HasSubstr("  enough     ")));
}

class EnoughOnHost : public Enough {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (!host::userfault_support().kernel_faults) {
      GTEST_SKIP() << "no run works here";
    }
  }
};

// Buffers of all sizes that come and go, so that what was freed serves others in part.
TEST_F(EnoughOnHost, OfAProgramWhoseBuffersComeAndGo) {
  constexpr const char* kScript = R"(python3 -c '
import random
random.seed(5)
kept = []
for step in range(300):
    if kept and random.random() < 0.45:
        kept.pop(random.randrange(len(kept)))
    else:
        kept.append(bytearray(random.randrange(1 << 20, 9 << 20)))
        for at in range(0, len(kept[-1]), 4096):
            kept[-1][at] = 1
    if kept:
        kept[random.randrange(len(kept))][0] = 7
    del kept[25:]
')";
  for (const char* const policy : {"deepum", "base_uvm", "g10"}) {
    expect_enough("32MiB", fmt::format("--device host --host-memory 1GiB --policy {}", policy),
                  kScript);
  }
}

TEST_F(EnoughOnHost, OfOneBuffer) {
  expect_enough("32MiB", "--device host --host-memory 1GiB",
                "dd if=/dev/zero of=/dev/null bs=48M count=3");
}

}  // namespace
}  // namespace spillway::test

#endif
