// The first line of a run: on what, with which budgets and whose they are, and what is off. It is
// in the record as well.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/golden.h"
#include "cli/program.h"
#include "platform/host/faults/userfault.h"

namespace spillway::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kNoDriver = "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1";
constexpr const char* kProgram = "dd if=/dev/zero of=/dev/null bs=8M count=2";

class StartLine : public ProgramTest {
 protected:
  // A shell's transcript of it, up to that line.
  [[nodiscard]] std::string first_lines(const std::string& options, const std::string& environment,
                                        const std::string& shown) const {
    const Outcome outcome = run(fmt::format("run {} -- true", options), environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::string text =
        fmt::format("$ {}{}spillway run {} -- true\n", shown, shown.empty() ? "" : " ", options);
    for (const std::string& line : lines_of(outcome.err)) {
      text += line + "\n";
      if (line.starts_with("spillway: runs on ")) {
        break;
      }
    }
    return without_this_machine(text, folder_.string()) + "\n";
  }
};

class StartLineOnHost : public StartLine {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
#ifndef FAKE_CUDA_LIBRARY
    GTEST_SKIP() << "a sanitizer's libraries are not preloaded";
#endif
    if (!host::userfault_support().kernel_faults) {
      GTEST_SKIP() << "no run works here";
    }
  }
};

TEST_F(StartLineOnHost, SaysWhatTookEffectAndWhoseItWas) {
  std::string all;
  const auto add = [&](const std::string& options, const std::string& environment = "") {
    all += first_lines(options, std::string(kNoDriver) + " " + environment, environment);
  };
  add("--device host");
  add("--device host --device-memory 64MiB --host-memory 128MiB --storage .:32MiB");
  add("--device host --device-memory 64MiB",
      "SPILLWAY_DEVICE_MEMORY=1GiB SPILLWAY_HOST_MEMORY=96MiB SPILLWAY_POLICY=g10");
  add("--device host", "SPILLWAY_STORAGE=.");
  add("--device host --policy ideal");
  add("--device host --policy g10_gds --storage . --host-memory 64MiB");
  add("--policy base_uvm --prefetch-degree 4", "SPILLWAY_DEVICE_MEMROY=4GiB");
  expect_golden("first_lines_host", all);
}

#ifdef FAKE_CUDA_LIBRARY
class StartLineOnGpu : public StartLine {
 protected:
  std::string driver_ = fmt::format("SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}') ",
                                    FAKE_CUDA_LIBRARY);
};

TEST_F(StartLineOnGpu, SaysWhatTookEffectAndWhoseItWas) {
  std::string all;
  const auto add = [&](const std::string& options, const std::string& environment = "") {
    all += first_lines(options, driver_ + environment, environment);
  };
  add("--device auto");
  add("--device cuda --device-memory 64MiB --host-memory 128MiB");
  add("--device cuda --storage .:32MiB");
  add("--device cuda --storage .:32MiB",
      "CUFILE_ALLOW_COMPAT_MODE=false SPILLWAY_NVIDIA_FS=/proc SPILLWAY_NVIDIA_FS_NODE=/dev/null");
  add("--device cuda --policy g10", "SPILLWAY_HOST_MEMORY=96MiB");
  add("--device cuda --policy flashneuron --storage .:32MiB");
  add("--device cuda --near-optimizer on");
  add("--device cuda --link-bandwidth 13GB");
  add("--device cuda --link-bandwidth 13GB --near-optimizer off");
  add("--device cuda --link-bandwidth 40GB", "SPILLWAY_NEAR_OPTIMIZER=auto");
  add("--device cuda --threshold 4MiB --host-memory 96MiB", "CUDA_LAUNCH_BLOCKING=1");
  expect_golden("first_lines_gpu", all);
}

TEST_F(StartLineOnGpu, IsInTheRecordWithWhatItSays) {
  const Outcome outcome =
      run(fmt::format("run --device cuda --device-memory 16MiB --storage .:64MiB --threshold 4MiB "
                      "--json record -- {} dlopen steps",
                      CUDA_PROGRAM),
          driver_ + "SPILLWAY_HOST_MEMORY=128MiB");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json record = json::parse(read_file(folder_ / "record"));
  const json& start = record["start"];
  EXPECT_THAT(outcome.err, HasSubstr("spillway: " + start["line"].get<std::string>() + "\n"));
  EXPECT_EQ(start["device"], (json{{"name", "cuda"}, {"from", "--device cuda"}}));
  EXPECT_EQ(start["gpu"], "Fake device");
  EXPECT_EQ(start["memory_bytes"], 1 << 30);
  EXPECT_EQ(start["device_memory"], (json{{"bytes", 16 << 20}, {"from", "--device-memory"}}));
  EXPECT_EQ(start["host_memory"], (json{{"bytes", 128 << 20}, {"from", "SPILLWAY_HOST_MEMORY"}}));
  EXPECT_EQ(start["pinned_at_most_bytes"], 128 << 20);
  EXPECT_EQ(start["storage"], (json{{"name", "."}, {"from", "--storage"}}));
  EXPECT_EQ(start["policy"], (json{{"name", "lookahead"}, {"from", "default"}}));
  EXPECT_EQ(start["near_optimizer"], (json{{"name", "off"}, {"from", "default"}}));
  ASSERT_EQ(start["switched_off"].size(), 1U) << start;
  EXPECT_EQ(start["switched_off"][0]["what"], "direct storage");
  ASSERT_EQ(start["without_effect"].size(), 1U) << start;
  EXPECT_THAT(start["without_effect"][0].get<std::string>(),
              StartsWith("--threshold 4MiB has no effect"));
  EXPECT_FALSE(start["version"].get<std::string>().empty());
  EXPECT_FALSE(start["commit"].get<std::string>().empty());
  EXPECT_EQ(record["budget_bytes"]["device"], start["device_memory"]["bytes"]);
}

// Asked for by the user's own word, and then not there.
TEST_F(StartLineOnGpu, DirectStorageThatFailsIsSaidAndInTheRecord) {
  const Outcome outcome =
      run(fmt::format("run --device cuda --device-memory 16MiB --host-memory 128MiB --storage "
                      ".:64MiB --json record -- {} dlopen steps",
                      CUDA_PROGRAM),
          driver_ +
              "CUFILE_ALLOW_COMPAT_MODE=false SPILLWAY_NVIDIA_FS=/proc "
              "SPILLWAY_NVIDIA_FS_NODE=/dev/null SPILLWAY_CUFILE=/no/such/libcufile.so.0");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("spillway: direct storage is off: no libcufile: "));
  const json record = json::parse(read_file(folder_ / "record"));
  ASSERT_EQ(record["said"].size(), 1U) << record["said"];
  EXPECT_THAT(record["said"][0].get<std::string>(), StartsWith("direct storage is off: "));
}

// More than there is: what is had instead is said, and in the record.
TEST_F(StartLineOnGpu, ABudgetThatIsNotThereIsSaidAndInTheRecord) {
  const Outcome outcome = run(fmt::format("run --device cuda --device-memory 8GiB --host-memory "
                                          "64MiB --json record -- {} dlopen never-full",
                                          CUDA_PROGRAM),
                              driver_);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json record = json::parse(read_file(folder_ / "record"));
  ASSERT_EQ(record["said"].size(), 1U) << record["said"];
  EXPECT_THAT(record["said"][0].get<std::string>(),
              HasSubstr("a device memory of 8 GiB is more than is free on device 0"));
  EXPECT_LT(record["budget_bytes"]["device"], 1 << 30);
}
#endif

TEST_F(StartLineOnHost, IsBeforeTheProgramsOwnAndInTheRecord) {
  const Outcome outcome =
      run(fmt::format("run --device host --device-memory 64MiB --json record -- {}", kProgram));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("spillway: runs on this machine's own memory ("));
#ifdef FAKE_CUDA_LIBRARY  // a sanitizer's libraries are not preloaded
  const json start = json::parse(read_file(folder_ / "record"))["start"];
  EXPECT_EQ("spillway: " + start["line"].get<std::string>(), lines_of(outcome.err).front());
  EXPECT_EQ(start["gpu"], "");
  EXPECT_EQ(start["pinned_at_most_bytes"], 0);
  EXPECT_EQ(start["switched_off"], json::array());
#endif
}

}  // namespace
}  // namespace spillway::test
