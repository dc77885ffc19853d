// `spillway machine ...` as a person calls it: output, exit status, one line for a mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "machine/load.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string output;  // standard output and standard error
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  const std::string command = std::string("'") + SPILLWAY_PROGRAM + "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return outcome;
  }
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    outcome.output += static_cast<char>(c);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(MachineCommand, ListsEveryBuiltInMachine) {
  const Outcome outcome = run("machine list");
  EXPECT_EQ(outcome.status, 0);
  for (const std::string& name : builtin_machine_names()) {
    EXPECT_THAT(outcome.output, HasSubstr("\n" + name + " "));
  }
  EXPECT_THAT(outcome.output, HasSubstr("15.75/15.75"));
}

TEST(MachineCommand, ShowsAMachineThatCanBeReadAgain) {
  const Outcome outcome =
      run("machine show a100-40gb --set device.capacity=30GiB --set link.bandwidth=32GB/s "
          "--set name=mine");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "machine_command_test.toml").string();
  std::ofstream(path) << outcome.output;
  const Result<Machine> machine = load_machine(path);
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->name, "mine");
  EXPECT_EQ(machine->device.capacity_bytes, 30 * kGiB);
  EXPECT_EQ(machine->link.from_device_bytes_per_s, 32e9);
  EXPECT_EQ(run("machine show '" + path + "'").output, outcome.output);
  std::filesystem::remove(path);
}

TEST(MachineCommand, OneLineAndStatus2ForAMistake) {
  for (const char* arguments :
       {"machine show a100", "machine show no/such/file.toml", "machine show /",
        "machine show a100-40gb --set device.capacity=40GB/s",
        "machine show a100-40gb --set device.capcity=40GB",
        "machine show a100-40gb --set storage.erase_block=6KiB"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.output, StartsWith("spillway: ")) << arguments;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

}  // namespace
}  // namespace spillway
