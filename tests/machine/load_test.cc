// Machine files, built-in machines and settings: what is accepted, and how refusals read.
#include "machine/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "machine/quantity.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kSmall = R"(name = "small"
[device]
capacity = "1GiB"
[link]
to_device = "10 GB/s"
from_device = 8e9
)";

void expect_equal(const Machine& a, const Machine& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.device.capacity_bytes, b.device.capacity_bytes);
  EXPECT_EQ(a.device.frame_bytes, b.device.frame_bytes);
  EXPECT_EQ(a.device.zero_bandwidth_bytes_per_s, b.device.zero_bandwidth_bytes_per_s);
  EXPECT_EQ(a.device.row_bandwidth_bytes_per_s, b.device.row_bandwidth_bytes_per_s);
  EXPECT_EQ(a.device.memory_bandwidth_bytes_per_s, b.device.memory_bandwidth_bytes_per_s);
  EXPECT_EQ(a.device.bf16_flops_per_s, b.device.bf16_flops_per_s);
  EXPECT_EQ(a.device.tf32_flops_per_s, b.device.tf32_flops_per_s);
  EXPECT_EQ(a.device.fp32_flops_per_s, b.device.fp32_flops_per_s);
  EXPECT_EQ(a.device.processors, b.device.processors);
  EXPECT_EQ(a.device.compute_capability, b.device.compute_capability);
  EXPECT_EQ(a.device.block_bytes, b.device.block_bytes);
  EXPECT_EQ(a.handles.create_ns, b.handles.create_ns);
  EXPECT_EQ(a.handles.release_ns, b.handles.release_ns);
  EXPECT_EQ(a.handles.map_ns, b.handles.map_ns);
  EXPECT_EQ(a.handles.map_wait_ns, b.handles.map_wait_ns);
  EXPECT_EQ(a.handles.unmap_ns, b.handles.unmap_ns);
  EXPECT_EQ(a.handles.clear_bytes_per_s, b.handles.clear_bytes_per_s);
  EXPECT_EQ(a.host.capacity_bytes, b.host.capacity_bytes);
  EXPECT_EQ(a.host.launch_ns, b.host.launch_ns);
  EXPECT_EQ(a.host.tracked_ns, b.host.tracked_ns);
  EXPECT_EQ(a.host.memory_bytes_per_s, b.host.memory_bytes_per_s);
  EXPECT_EQ(a.host.cores, b.host.cores);
  EXPECT_EQ(a.host.core_bytes_per_s, b.host.core_bytes_per_s);
  EXPECT_EQ(a.link.to_device_bytes_per_s, b.link.to_device_bytes_per_s);
  EXPECT_EQ(a.link.from_device_bytes_per_s, b.link.from_device_bytes_per_s);
  EXPECT_EQ(a.link.latency_ns, b.link.latency_ns);
  EXPECT_EQ(a.faults.model, b.faults.model);
  EXPECT_EQ(a.faults.latency_ns, b.faults.latency_ns);
  EXPECT_EQ(a.faults.batch_blocks, b.faults.batch_blocks);
  EXPECT_EQ(a.faults.batches_in_flight, b.faults.batches_in_flight);
  EXPECT_EQ(a.storage.capacity_bytes, b.storage.capacity_bytes);
  EXPECT_EQ(a.storage.read_bytes_per_s, b.storage.read_bytes_per_s);
  EXPECT_EQ(a.storage.write_bytes_per_s, b.storage.write_bytes_per_s);
  EXPECT_EQ(a.storage.read_latency_ns, b.storage.read_latency_ns);
  EXPECT_EQ(a.storage.write_latency_ns, b.storage.write_latency_ns);
  EXPECT_EQ(a.storage.flash_page_bytes, b.storage.flash_page_bytes);
  EXPECT_EQ(a.storage.erase_block_bytes, b.storage.erase_block_bytes);
  EXPECT_EQ(a.storage.over_provisioning, b.storage.over_provisioning);
  EXPECT_EQ(a.storage.endurance_drive_writes_per_day, b.storage.endurance_drive_writes_per_day);
  EXPECT_EQ(a.storage.endurance_years, b.storage.endurance_years);
  EXPECT_EQ(a.storage.erase_latency_ns, b.storage.erase_latency_ns);
}

std::string refusal(std::string_view text) {
  const Result<Machine> machine = parse_machine(text, "m.toml", "m");
  EXPECT_FALSE(machine.has_value()) << text;
  if (machine) {
    return "";
  }
  EXPECT_EQ(machine.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(machine.error().message.find('\n'), std::string::npos) << machine.error().message;
  return machine.error().message;
}

std::string with_line(std::string_view line) { return std::string(kSmall) + std::string(line); }

TEST(LoadMachine, A100IsTable2OfG10) {
  const Result<Machine> machine = load_machine("a100-40gb");
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->name, "a100-40gb");
  EXPECT_EQ(machine->device.capacity_bytes, 40 * kGiB);
  EXPECT_EQ(machine->device.frame_bytes, 4 * kKiB);
  EXPECT_EQ(machine->host.capacity_bytes, 128 * kGiB);
  EXPECT_EQ(machine->link.to_device_bytes_per_s, 15.754e9);
  EXPECT_EQ(machine->link.from_device_bytes_per_s, 15.754e9);
  EXPECT_EQ(machine->faults.model, FaultModel::kReplayable);
  EXPECT_EQ(machine->faults.latency_ns, 45'000);
  EXPECT_EQ(machine->storage.capacity_bytes, 3'200'000'000'000U);
  EXPECT_EQ(machine->storage.read_bytes_per_s, 3.2e9);
  EXPECT_EQ(machine->storage.write_bytes_per_s, 3.0e9);
  EXPECT_EQ(machine->storage.read_latency_ns, 20'000);
  EXPECT_EQ(machine->storage.write_latency_ns, 16'000);
  EXPECT_EQ(machine->storage.endurance_drive_writes_per_day, 30);
  EXPECT_EQ(machine->storage.endurance_years, 5);
}

TEST(LoadMachine, BuiltInMachinesAreTheOnesOfThePapers) {
  struct Expected {
    std::string name;
    double device_gib;
    Bytes host_gib;
    double link_gb_per_s;
    bool storage;
  };
  const std::vector<Expected> expected{
      {"a100-40gb", 40, 128, 15.754, true},       {"h100", 79, 125, 55.4, true},
      {"h100-80gb", 79, 125, 55.4, true},         {"h200", 139, 125, 55.4, true},
      {"rtx2080ti", 4529.0 / 512, 96, 12, false}, {"rtx3080ti-pcie3", 12, 64, 12, false},
      {"rtx3080ti-pcie4", 12, 64, 25, false},     {"rtx4090-24gb", 23.5, 64, 25, false},
      {"rtx5090-32gb", 31.3, 64, 55, false},      {"v100-16gb", 16, 512, 12, false},
      {"v100-32gb", 32, 512, 12, false},          {"v100-near-memory", 32, 16, 6.4, true}};
  std::vector<std::string> names;
  for (const Expected& row : expected) {
    names.push_back(row.name);
    const Result<Machine> machine = load_machine(row.name);
    ASSERT_TRUE(machine.has_value()) << machine.error().message;
    EXPECT_NEAR(static_cast<double>(machine->device.capacity_bytes),
                row.device_gib * static_cast<double>(kGiB), static_cast<double>(kPageBytes))
        << row.name;
    EXPECT_EQ(machine->host.capacity_bytes, row.host_gib * kGiB) << row.name;
    EXPECT_EQ(machine->link.to_device_bytes_per_s, row.link_gb_per_s * 1e9) << row.name;
    EXPECT_EQ(machine->storage.capacity_bytes != 0, row.storage) << row.name;
    // Of handles, as the CUDA platform has them.
    const bool measured =
        row.name.starts_with("h") || row.name.starts_with("rtx4") || row.name.starts_with("rtx5");
    EXPECT_EQ(machine->faults.model, measured ? FaultModel::kLaunch : FaultModel::kReplayable);
    EXPECT_EQ(machine->handles.cost_time(), measured) << row.name;
    EXPECT_EQ(machine->device.block_bytes, measured ? 128 * kMiB : kBlockBytes);
    EXPECT_EQ(machine->faults.batches_in_flight, measured ? 4U : 1U) << row.name;
    EXPECT_EQ(machine->host.launch_ns, !measured                      ? 0
                                       : row.name.starts_with("h100") ? 50'000
                                                                      : 45'000)
        << row.name;
    EXPECT_EQ(machine->device.bf16_flops_per_s > 0, row.name != "v100-near-memory") << row.name;
    EXPECT_EQ(machine->host.tracked_ns, measured ? 20'000 : 0) << row.name;
    EXPECT_EQ(machine->host.cores, row.name.starts_with("h") ? 16U : 0U) << row.name;
  }
  EXPECT_EQ(builtin_machine_names(), names);
}

TEST(LoadMachine, EveryBuiltInMachineLoadsAndSurvivesPrinting) {
  for (const std::string& name : builtin_machine_names()) {
    const Result<Machine> machine = load_machine(name);
    ASSERT_TRUE(machine.has_value()) << machine.error().message;
    EXPECT_EQ(machine->name, name);
    EXPECT_FALSE(machine->source.empty()) << name;
    EXPECT_TRUE(validate_machine(*machine).has_value()) << name;
    const Result<Machine> again = parse_machine(to_toml(*machine), "printed", "other");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    expect_equal(*machine, *again);
  }
}

TEST(LoadMachine, AnotherNameOfAMachineIsTheSameMachine) {
  const Result<Machine> machine = load_machine("h100");
  Result<Machine> other = load_machine("h100-80gb");
  ASSERT_TRUE(machine.has_value() && other.has_value());
  EXPECT_EQ(other->name, "h100-80gb");
  other->name = "h100";
  expect_equal(*other, *machine);
}

TEST(LoadMachine, UnknownNameListsTheBuiltInOnes) {
  const Result<Machine> machine = load_machine("a100");
  ASSERT_FALSE(machine.has_value());
  EXPECT_EQ(machine.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(machine.error().message, AllOf(HasSubstr("'a100'"), HasSubstr("a100-40gb")));
}

TEST(LoadMachine, FilesAreNamedByTheirPath) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir());
  const std::string path = (folder / "my-machine.toml").string();
  std::ofstream(path) << std::string(kSmall).substr(std::string(kSmall).find('\n'));
  const Result<Machine> machine = load_machine(path);
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->name, "my-machine");
  EXPECT_EQ(machine->device.capacity_bytes, kGiB);
  EXPECT_EQ(machine->link.from_device_bytes_per_s, 8e9);

  std::ofstream(path) << "[device]\ncapacity = 7\n";
  const Result<Machine> wrong = load_machine(path);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr(path + ":2:12: device.capacity: 7 is not allowed"));
  std::filesystem::remove(path);

  const Result<Machine> missing = load_machine(path);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr(path));
  const Result<Machine> a_folder = load_machine(folder.string() + "/");
  ASSERT_FALSE(a_folder.has_value());
  EXPECT_EQ(a_folder.error().code, ErrorCode::kInvalidInput);
}

TEST(LoadMachine, RefusalsNamePlaceKeyAndExpectation) {
  EXPECT_EQ(refusal(with_line("[host]\ncapacity = -1\n")),
            "m.toml:8:12: host.capacity: -1 is not allowed; expected a size from 4KiB to 1024TiB, "
            "or 0");
  EXPECT_EQ(refusal(with_line("[faults]\nlatency = 45\n")),
            "m.toml:8:11: faults.latency: 45 is not allowed; expected a time with its unit from "
            "1ns to 10s, or 0");
  EXPECT_EQ(refusal(with_line("[faults]\nmodel = \"lazy\"\n")),
            "m.toml:8:9: faults.model: 'lazy' is not allowed; expected \"replayable\" or "
            "\"launch\"");
  EXPECT_EQ(refusal(with_line("[host]\ncapcity = 1\n")),
            "m.toml:8:11: unknown key 'host.capcity'; did you mean host.capacity?");
  EXPECT_EQ(refusal(with_line("[host]\ncapacity = true\n")),
            "m.toml:8:12: host.capacity: a value of the wrong type; expected a size from 4KiB to "
            "1024TiB, or 0");
  EXPECT_EQ(refusal("host = 1\n"), "m.toml:1:8: 'host' is a section; write [host]");
}

TEST(LoadMachine, RefusesWhatNoMachineHas) {
  const std::vector<std::string> lines{"[host]\ncapacity = \"2000000TiB\"",
                                       "[host]\ncapacity = \"forty\"",
                                       "[host]\ncapacity = inf",
                                       "[host]\ncapacity = nan",
                                       "[host]\ncapacity = 40000.5",
                                       "[host]\ncapacity = [1]",
                                       "[host]\ncapacity = 1",
                                       "[host]\nlaunch = \"-1us\"",
                                       "[host]\nlaunch = 45",
                                       "[faults]\nlatency = \"-3us\"",
                                       "[faults]\nlatency = \"2h\"",
                                       "[faults]\nlatency = \"1000s\"",
                                       "[faults]\nbatch_blocks = 0",
                                       "[faults]\nbatch_blocks = 1.5",
                                       "[faults]\nbatch_blocks = 5e9",
                                       "[faults]\nmodel = 1",
                                       "[storage]\nover_provisioning = -1",
                                       "[storage]\nover_provisioning = \"lots\"",
                                       "[disk]\ncapacity = 1",
                                       "[storage]\ncapacity = \"1TB\"",
                                       "[storage]\nflash_page = 0",
                                       "[storage]\nerase_block = \"5000B\"",
                                       "[storage]\nread_bandwidth = 3.2",
                                       "[host\n",
                                       "[device]\nframe = \"4KiB\"",
                                       "[storage]\nread_bandwidth = \"3 GB/h\""};
  for (const std::string& line : lines) {
    EXPECT_THAT(refusal(with_line(line)), HasSubstr("m.toml:")) << line;
  }
  EXPECT_THAT(refusal(""), HasSubstr("device.capacity"));
  EXPECT_THAT(refusal("[device]\ncapacity = \"1GiB\"\n"), HasSubstr("link.to_device"));
  EXPECT_THAT(refusal("[device]\nframe = \"12KiB\"\ncapacity = \"1GiB\"\n[link]\nbandwidth=1e9\n"),
              HasSubstr("m.toml:2:9: device.frame"));
}

TEST(LoadMachine, PointsAtTheFieldThatDoesNotFitTheOthers) {
  EXPECT_EQ(refusal(with_line("[storage]\nflash_page = \"16KiB\"\nerase_block = \"40KiB\"\n")),
            "m.toml:9:15: storage.erase_block: expected a multiple of storage.flash_page");
  EXPECT_EQ(
      refusal(with_line("[storage]\ncapacity = \"100TiB\"\nbandwidth = 1e9\nflash_page = 512\n"
                        "erase_block = 512\n")),
      "m.toml:11:15: storage.erase_block: expected more for so large a storage.capacity");
  EXPECT_EQ(refusal("[device]\ncapacity=\"4KiB\"\nframe=\"2MiB\"\n[link]\nto_device=1e9\n"
                    "from_device=1e9\n"),
            "m.toml:2:10: device.capacity: expected at least one frame (device.frame)");
}

TEST(LoadMachine, AnAliasStandsForBothAndTheParticularKeyHasTheLastWord) {
  const Result<Machine> machine = parse_machine(
      "[device]\ncapacity = '1GiB'\n[link]\nto_device = '5 GB/s'\nbandwidth = '9 GB/s'\n", "m.toml",
      "m");
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->link.to_device_bytes_per_s, 5e9);
  EXPECT_EQ(machine->link.from_device_bytes_per_s, 9e9);
}

TEST(LoadMachine, SurvivesRandomDamage) {
  const std::string whole = to_toml(*load_machine("a100-40gb"));
  Rng rng(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole.substr(0, rng.chance(0.3) ? rng.below(whole.size()) : whole.size());
    for (std::uint64_t edits = rng.below(4); edits > 0 && !text.empty(); --edits) {
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    }
    const Result<Machine> machine = parse_machine(text, "m.toml", "m");
    if (machine) {
      EXPECT_TRUE(validate_machine(*machine).has_value()) << text;
    } else {
      EXPECT_EQ(machine.error().code, ErrorCode::kInvalidInput);
    }
  }
}

TEST(ToToml, KeepsAwkwardTextAndNumbers) {
  Machine machine = *parse_machine(kSmall, "m.toml", "m");
  machine.name = "quote \" back\\slash\nnewline";
  machine.source = "tab\t, 'single', \xc3\xa9";
  machine.device.capacity_bytes = (1ULL << 49U) + 1;
  machine.link.to_device_bytes_per_s = 12'345'678'901;
  machine.faults.latency_ns = 45'001;
  machine.storage.over_provisioning = 0.1;
  const Result<Machine> again = parse_machine(to_toml(machine), "printed", "other");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  expect_equal(machine, *again);
}

}  // namespace
}  // namespace spillway
