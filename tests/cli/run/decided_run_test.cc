// What a run decides is decided once: it looks at the machine's memory and at its driver a single
// time, and everything that it says and does is made of what it saw.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "platform/host/faults/userfault.h"

namespace spillway::test {
namespace {

#ifdef FAKE_CUDA_LIBRARY
using testing::HasSubstr;
using testing::Not;

class DecidedRunTest : public ProgramTest {
 protected:
  // "m" for each look at the memory, "d" for each at the driver.
  [[nodiscard]] std::string looks_of(const std::string& arguments) const {
    const Outcome outcome = run(
        arguments, fmt::format("SPILLWAY_CUDA_DRIVER='{}' LD_PRELOAD='{}' SPILLWAY_TEST_LOOKS='{}'",
                               FAKE_CUDA_LIBRARY, LOOKS_LIBRARY, (folder_ / "looks").string()));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_file(folder_ / "looks");
  }
};

TEST_F(DecidedRunTest, OnAGpuTheDriverAndTheMemoryAreLookedAtOnce) {
  EXPECT_EQ(looks_of("run --device-memory 64MiB -- true"), "dm");
}

TEST_F(DecidedRunTest, OnTheHostTheMemoryIsLookedAtOnce) {
  if (!host::userfault_support().kernel_faults) {
    GTEST_SKIP() << "no run works here";
  }
  EXPECT_EQ(looks_of("run --device host --device-memory 64MiB -- true"), "m");
}

// What a line says is what the program gets, on either device.
TEST_F(DecidedRunTest, TheProgramGetsTheHostMemoryThatIsSaid) {
  for (const char* const device : {"cuda", "host"}) {
    if (device == std::string("host") && !host::userfault_support().kernel_faults) {
      continue;
    }
    const Outcome outcome = run(
        fmt::format("run --device {} --device-memory 64MiB --json record -- sh -c 'echo "
                    "$SPILLWAY_HOST_MEMORY; exec {}'",
                    device,
                    device == std::string("cuda") ? std::string(CUDA_PROGRAM) + " dlopen patterns"
                                                  : "dd if=/dev/zero of=/dev/null bs=8M count=2"),
        fmt::format("SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}')",
                    FAKE_CUDA_LIBRARY));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto record = nlohmann::json::parse(read_file(folder_ / "record"));
    EXPECT_EQ(record["start"]["host_memory"]["from"], "default");
    EXPECT_EQ(record["start"]["host_memory"]["bytes"].dump(), lines_of(outcome.out).front());
  }
}

// Once for all that it says of the machine. Its trials are programs of their own.
TEST_F(DecidedRunTest, DoctorLooksAtTheMemoryOnce) {
  const std::string looks = looks_of("doctor");
  EXPECT_THAT(looks, HasSubstr("m"));
  EXPECT_THAT(looks, Not(testing::ContainsRegex("m.*m"))) << looks;
}
#endif

}  // namespace
}  // namespace spillway::test
