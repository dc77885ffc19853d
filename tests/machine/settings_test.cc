// `--set KEY=VALUE`: every field can be set, and a wrong setting says what was meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "machine/load.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Machine a100() { return *load_machine("a100-40gb"); }

std::string refusal_of_setting(std::string_view setting) {
  Machine machine = a100();
  const std::string before = to_toml(machine);
  const Status status = apply_setting(machine, setting);
  EXPECT_FALSE(status.has_value()) << setting;
  EXPECT_EQ(to_toml(machine), before) << "a refused setting changed the machine";
  return status ? "" : status.error().message;
}

struct Setting {
  const char* text;
  const char* printed;  // the line of to_toml that it changes
};

TEST(ApplySetting, SetsEveryField) {
  const std::vector<Setting> settings{
      {"name=mine", "name = 'mine'"},
      {"source=measured", "source = 'measured'"},
      {"device.capacity=30GiB", "capacity = \"30GiB\""},
      {"device.frame=2MiB", "frame = \"2MiB\""},
      {"device.zero_bandwidth=1 TB/s", "zero_bandwidth = \"1000 GB/s\""},
      {"device.row_bandwidth=2 TB/s", "row_bandwidth = \"2000 GB/s\""},
      {"device.memory_bandwidth=3 TB/s", "memory_bandwidth = \"3000 GB/s\""},
      {"device.flops_bf16=100", "flops_bf16 = 100"},
      {"device.flops_tf32=50", "flops_tf32 = 50"},
      {"device.flops_fp32=25", "flops_fp32 = 25"},
      {"device.processors=132", "processors = 132"},
      {"device.compute_capability=8.9", "compute_capability = 8.9"},
      {"device.block=64MiB", "\nblock = \"64MiB\""},
      {"handles.create=10us", "create = \"10us\""},
      {"handles.release=20us", "release = \"20us\""},
      {"handles.map=36us", "\nmap = \"36us\""},
      {"handles.map_wait=565us", "map_wait = \"565us\""},
      {"handles.unmap=22us", "unmap = \"22us\""},
      {"handles.clear_bandwidth=215 GB/s", "clear_bandwidth = \"215 GB/s\""},
      {"host.capacity=32GiB", "capacity = \"32GiB\""},
      {"host.launch=45us", "launch = \"45us\""},
      {"host.told=20us", "told = \"20us\""},
      {"host.memory_bandwidth=300GB/s", "memory_bandwidth = \"300 GB/s\""},
      {"host.cores=8", "\ncores = 8"},
      {"host.core_bandwidth=40GB/s", "core_bandwidth = \"40 GB/s\""},
      {"link.to_device=32 GB/s", "to_device = \"32 GB/s\""},
      {"link.from_device=31 GB/s", "from_device = \"31 GB/s\""},
      {"link.both_ways=50 GB/s", "both_ways = \"50 GB/s\""},
      {"link.far_bandwidth=20 GB/s", "far_bandwidth = \"20 GB/s\""},
      {"link.latency=3us", "\nlatency = \"3us\""},
      {"faults.model=launch", "model = \"launch\""},
      {"faults.latency=20us", "\nlatency = \"20us\""},
      {"faults.batch_blocks=7", "batch_blocks = 7"},
      {"faults.batches_in_flight=4", "batches_in_flight = 4"},
      {"storage.capacity=1TB", "capacity = \"1TB\""},
      {"storage.read_bandwidth=6.4GB/s", "read_bandwidth = \"6.4 GB/s\""},
      {"storage.write_bandwidth=6GB/s", "write_bandwidth = \"6 GB/s\""},
      {"storage.read_latency=1ms", "read_latency = \"1ms\""},
      {"storage.write_latency=1500ns", "write_latency = \"1500ns\""},
      {"storage.flash_page=16KiB", "flash_page = \"16KiB\""},
      {"storage.erase_block=4MiB", "erase_block = \"4MiB\""},
      {"storage.over_provisioning=0.5", "over_provisioning = 0.5"},
      {"storage.endurance_dwpd=7", "endurance_dwpd = 7"},
      {"storage.endurance_years=4", "endurance_years = 4"},
      {"storage.erase_latency=2ms", "erase_latency = \"2ms\""},
  };
  for (const Setting& setting : settings) {
    Machine machine = a100();
    ASSERT_THAT(to_toml(machine), testing::Not(HasSubstr(setting.printed))) << setting.text;
    const Status status = apply_setting(machine, setting.text);
    ASSERT_TRUE(status.has_value()) << status.error().message;
    EXPECT_THAT(to_toml(machine), HasSubstr(setting.printed));
  }
  // One setting a line of the printed machine: a field without a setting here would be one more.
  const std::string printed = to_toml(a100());
  EXPECT_EQ(static_cast<std::size_t>(std::count(printed.begin(), printed.end(), '=')),
            settings.size());
}

TEST(ApplySetting, AliasesSetBothDirections) {
  Machine machine = a100();
  ASSERT_TRUE(apply_setting(machine, "link.bandwidth=32GB/s").has_value());
  ASSERT_TRUE(apply_setting(machine, "storage.bandwidth=12.8GB/s").has_value());
  ASSERT_TRUE(apply_setting(machine, "storage.latency=5us").has_value());
  EXPECT_EQ(machine.link.to_device_bytes_per_s, 32e9);
  EXPECT_EQ(machine.link.from_device_bytes_per_s, 32e9);
  EXPECT_EQ(machine.storage.read_bytes_per_s, 12.8e9);
  EXPECT_EQ(machine.storage.write_bytes_per_s, 12.8e9);
  EXPECT_EQ(machine.storage.read_latency_ns, 5000);
  EXPECT_EQ(machine.storage.write_latency_ns, 5000);
}

TEST(ApplySetting, SaysWhatWasMeant) {
  EXPECT_THAT(refusal_of_setting("device.capcity=1GiB"),
              HasSubstr("did you mean device.capacity?"));
  EXPECT_THAT(refusal_of_setting("capacity=1GiB"),
              HasSubstr("did you mean device.capacity or host.capacity or storage.capacity?"));
  EXPECT_THAT(refusal_of_setting("device.capacity_bytes=1"),
              HasSubstr("did you mean device.capacity?"));
  EXPECT_THAT(refusal_of_setting("link.bandwith=1"), HasSubstr("did you mean link.bandwidth?"));
  EXPECT_THAT(refusal_of_setting("pcie=5"),
              AllOf(HasSubstr("the keys are"), HasSubstr("link.to_device")));
  EXPECT_THAT(refusal_of_setting(std::string(100000, 'x') + "=1"), HasSubstr("the keys are"));
}

TEST(ApplySetting, RefusesWhatIsNoSetting) {
  EXPECT_THAT(refusal_of_setting("device.capacity"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(refusal_of_setting(""), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(refusal_of_setting("=1"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal_of_setting("device.capacity="), HasSubstr("expected a size"));
  EXPECT_THAT(refusal_of_setting("device.capacity=-1GiB"), HasSubstr("expected a size"));
  EXPECT_THAT(refusal_of_setting("device.capacity=0"), HasSubstr("expected a size"));
  EXPECT_THAT(refusal_of_setting("link.to_device=15.754"), HasSubstr("expected a bandwidth"));
  EXPECT_THAT(refusal_of_setting("faults.latency=45"), HasSubstr("unit of time"));
  EXPECT_THAT(refusal_of_setting("faults.latency=1 day"), HasSubstr("unit of time"));
  EXPECT_THAT(refusal_of_setting("faults.batch_blocks=many"), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal_of_setting("storage.over_provisioning=nan"), HasSubstr("expected a number"));
}

TEST(ValidateMachine, ChecksWhatASettingAloneCannot) {
  Machine machine = a100();
  ASSERT_TRUE(apply_setting(machine, "storage.flash_page=4KiB").has_value());
  ASSERT_TRUE(apply_setting(machine, "storage.erase_block=6KiB").has_value());
  const Status status = validate_machine(machine);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message,
            "machine a100-40gb: storage.erase_block: expected a multiple of storage.flash_page");
}

TEST(ValidateMachine, BlocksAreWholeFrames) {
  Machine machine = a100();
  ASSERT_TRUE(apply_setting(machine, "device.frame=2MiB").has_value());
  ASSERT_TRUE(apply_setting(machine, "device.block=5MiB").has_value());
  const Status status = validate_machine(machine);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message,
            "machine a100-40gb: device.block: expected a multiple of device.frame");
  ASSERT_TRUE(apply_setting(machine, "device.block=6MiB").has_value());
  EXPECT_TRUE(validate_machine(machine).has_value());
}

TEST(ValidateMachine, NoHostAndNoStorageAreMachinesToo) {
  Machine machine = a100();
  ASSERT_TRUE(apply_setting(machine, "host.capacity=0").has_value());
  ASSERT_TRUE(apply_setting(machine, "storage.capacity=0").has_value());
  ASSERT_TRUE(apply_setting(machine, "storage.bandwidth=0").has_value());
  EXPECT_TRUE(validate_machine(machine).has_value());
}

TEST(ValidateMachine, RefusesAnEmptyMachine) {
  EXPECT_FALSE(validate_machine(Machine{}).has_value());
}

}  // namespace
}  // namespace spillway
