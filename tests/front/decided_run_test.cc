// What a run decides is decided once: it looks at the machine's memory and at its driver a single
// time, and everything that it says and does is made of what it saw.
#include <gmock/gmock.h>

#include "front/program.h"
#include "platform/host/userfault.h"

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

// Once for all that it says of the machine. Its trials are programs of their own.
TEST_F(DecidedRunTest, DoctorLooksAtTheMemoryOnce) {
  const std::string looks = looks_of("doctor");
  EXPECT_THAT(looks, HasSubstr("m"));
  EXPECT_THAT(looks, Not(testing::ContainsRegex("m.*m"))) << looks;
}
#endif

}  // namespace
}  // namespace spillway::test
