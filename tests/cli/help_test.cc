// --help of every command, and what is said of a command line that cannot be understood.
#include <gmock/gmock.h>

#include "cli/golden.h"
#include "cli/program.h"

namespace spillway::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// All that --help lists.
constexpr const char* kCommands[] = {
    "",
    "run",
    "record",
    "doctor",
    "install-kernel",
    "trace",
    "trace info",
    "trace convert",
    "trace import",
    "trace generate",
    "trace generate mlp",
    "trace generate cnn",
    "trace generate transformer",
    "analyze",
    "machine",
    "machine list",
    "machine show",
    "simulate",
    "estimate",
    "plan",
    "reproduce",
    "reproduce g10",
    "reproduce near-memory",
    "reproduce autovm",
};

class Help : public ProgramTest {
 protected:
  // A shell's transcript of it: nothing goes to standard output.
  [[nodiscard]] std::string refused(const std::string& arguments,
                                    const std::string& environment = "") const {
    const Outcome outcome = run(arguments, environment);
    EXPECT_NE(outcome.status, 0) << arguments;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
    EXPECT_THAT(lines_of(outcome.err), SizeIs(1)) << arguments << "\n" << outcome.err;
    return fmt::format("$ spillway {}\n{}[{}]\n\n", arguments,
                       without_this_machine(outcome.err, folder_.string()), outcome.status);
  }
};

TEST_F(Help, OfEachCommandIsAsItWas) {
  for (const std::string command : kCommands) {
    const Outcome outcome = run(command + " --help");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err, IsEmpty());
    std::string name = command.empty() ? "spillway" : command;
    std::replace(name.begin(), name.end(), ' ', '_');
    expect_golden("help/" + name, outcome.out);
    constexpr std::size_t kColumns = 90;
    for (const std::string& line : lines_of(outcome.out)) {
      EXPECT_LE(line.size(), kColumns) << line;
    }
  }
}

// Whoever adds a command adds its file: those that --help lists are those above.
TEST_F(Help, ListsTheCommandsThatAreComparedHere) {
  std::size_t listed = 0;
  for (const std::string command : kCommands) {
    bool commands = false;
    for (const std::string& line : lines_of(run(command + " --help").out)) {
      commands = line.empty() ? false : commands;
      listed += commands && line.size() > 3 && line.starts_with("  ") && line[2] != ' ' ? 1U : 0U;
      commands = commands || line == "Programs:" || line == "Commands:" ||
                 line == "Traces, and machines that are simulated:";
    }
  }
  EXPECT_EQ(listed + 1, std::size(kCommands));
}

TEST_F(Help, IsShownWhereNothingIsSaid) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(outcome.out, run("--help").out);
}

TEST_F(Help, SaysWhatCannotBeUnderstood) {
  std::string all;
  for (const char* const arguments :
       {"rum -- true", "frobnicate", "trace inf", "run", "run --device host",
        "run --device-memroy 4GiB -- true", "run --device-memory -- true",
        "run --frobnicate -- true", "trace", "trace generate", "doctor x", "simulate",
        "simulate --jobs 0 x", "simulate --perturb", "record -- true", "machine show", "--verson",
        "trace generate mlp --dtype int8 -o x"}) {
    all += refused(arguments);
  }
  expect_golden("misuse", all);
}

// Not with a sanitizer: its libraries are not preloaded, and that is refused first.
#ifdef FAKE_CUDA_LIBRARY
TEST_F(Help, RefusesWhatARunCannotDo) {
  std::string all;
  for (const char* const arguments :
       {"run --device none -- true", "run --device cuda -- true",
        "run --device host --device-memory 4GX -- true",
        "run --device host --device-memory '' -- true",
        "run --device host --policy none-such -- true",
        "run --device host --policy g10_gds -- true", "run --device host --storage :4GiB -- true",
        "run --device host --storage /no/such/folder/at/all -- true",
        "run --device host --link-bandwidth 1KiB -- true",
        "run --device host --fault-latency soon -- true",
        "run --device host --json /no/such/folder/file -- true",
        "run --device host --strict --prefetch-degree 8 --policy base_uvm -- true",
        "record --device host -o step.txt -- true", "doctor --storage no/such/folder"}) {
    all += refused(arguments, "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1");
  }
  expect_golden("refusals", all);
}
#endif

}  // namespace
}  // namespace spillway::test
