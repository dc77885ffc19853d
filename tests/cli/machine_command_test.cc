// `spillway machine ...` as a person calls it: output, exit status, one line for a mistake.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "cli/program.h"
#include "machine/load.h"

namespace spillway {
namespace {

using testing::HasSubstr;

class MachineCommand : public test::ProgramTest {};

TEST_F(MachineCommand, ListsEveryBuiltInMachine) {
  const test::Outcome outcome = run("machine list");
  EXPECT_EQ(outcome.status, 0);
  for (const std::string& name : builtin_machine_names()) {
    EXPECT_THAT(outcome.out, HasSubstr("\n" + name + " "));
  }
  EXPECT_THAT(outcome.out, HasSubstr("15.75/15.75"));
}

TEST_F(MachineCommand, ShowsAMachineThatCanBeReadAgain) {
  const test::Outcome outcome =
      run("machine show a100-40gb --set device.capacity=30GiB --set link.bandwidth=32GB/s "
          "--set name=mine");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::filesystem::path path = folder_ / "mine.toml";
  std::ofstream(path) << outcome.out;
  const Result<Machine> machine = load_machine(path.string());
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->name, "mine");
  EXPECT_EQ(machine->device.capacity_bytes, 30 * kGiB);
  EXPECT_EQ(machine->link.from_device_bytes_per_s, 32e9);
  EXPECT_EQ(run("machine show mine.toml").out, outcome.out);
}

TEST_F(MachineCommand, OptionsMayStandBeforeTheName) {
  const test::Outcome outcome =
      run("machine show --set device.capacity=30GiB --set name=mine a100-40gb");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            run("machine show a100-40gb --set device.capacity=30GiB --set name=mine").out);
}

TEST_F(MachineCommand, OneLineAndStatus2ForAMistake) {
  const std::map<std::string, std::string> mistakes{
      {"a100", "unknown machine 'a100'"},
      {"no/such/file.toml", "no such file"},
      {"/", "no such file"},
      {"a100-40gb --set device.capacity=40GB/s", "40GB/s"},
      {"a100-40gb --set device.capcity=40GB", "device.capcity"},
      {"a100-40gb --set storage.erase_block=6KiB", "storage.erase_block"},
      {"a100-40gb --set name=mine name=yours", "'name=yours' is one word too many"},
  };
  for (const auto& [arguments, named] : mistakes) {
    expect_refusal("machine show " + arguments, 2, named);
  }
}

}  // namespace
}  // namespace spillway
