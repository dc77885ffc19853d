// What the kernel tells of a card's PCIe link, from folders such as it makes them.
#include "platform/cuda/driver/pcie_link.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace spillway::cuda {
namespace {

class PcieLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "pcie_link_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(card());
    std::filesystem::create_directories(root_ / "bus");
    std::filesystem::create_directory_symlink(card(), root_ / "bus" / "0000:65:00.0");
    write(card(), "vendor", "0x10de");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  [[nodiscard]] std::filesystem::path slot() const { return root_ / "pci0000:64" / "0000:64:02.0"; }
  [[nodiscard]] std::filesystem::path card() const { return slot() / "0000:65:00.0"; }
  static void write(const std::filesystem::path& folder, const char* file, const char* text) {
    std::ofstream(folder / file) << text << "\n";
  }
  [[nodiscard]] double gigabytes_per_s() const {
    return pcie_bytes_per_s({.domain = 0, .bus = 0x65, .device = 0}, root_ / "bus").value_or(0) /
           1e9;
  }

  std::filesystem::path root_;
};

TEST_F(PcieLinkTest, IsSpeedTimesLanes) {
  write(card(), "max_link_speed", "32.0 GT/s PCIe");
  write(card(), "max_link_width", "16");
  write(card(), "current_link_width", "16");
  EXPECT_NEAR(gigabytes_per_s(), 63.0, 0.1);
}

TEST_F(PcieLinkTest, OfASlowerSlotAndFewerLanesIsWhatTheyCarry) {
  write(card(), "max_link_speed", "16.0 GT/s PCIe");
  write(card(), "max_link_width", "16");
  write(slot(), "max_link_speed", "8.0 GT/s PCIe");
  EXPECT_NEAR(gigabytes_per_s(), 15.75, 0.05);
  write(card(), "current_link_width", "8");
  EXPECT_NEAR(gigabytes_per_s(), 7.88, 0.05);
}

TEST_F(PcieLinkTest, AVirtualMachinesSlotSaysNothing) {
  write(card(), "max_link_speed", "32.0 GT/s PCIe");
  write(card(), "max_link_width", "16");
  write(slot(), "max_link_speed", "2.5 GT/s PCIe");
  write(slot(), "vendor", "0x1b36");
  EXPECT_NEAR(gigabytes_per_s(), 63.0, 0.1);
}

TEST_F(PcieLinkTest, OfOldGenerationsTenBitsCarryAByte) {
  write(card(), "max_link_speed", "5.0 GT/s PCIe");
  write(card(), "max_link_width", "16");
  EXPECT_NEAR(gigabytes_per_s(), 8.0, 0.01);
}

TEST_F(PcieLinkTest, IsUnknownWhereTheKernelDoesNotTellIt) {
  EXPECT_EQ(gigabytes_per_s(), 0);
  write(card(), "max_link_speed", "Unknown");
  write(card(), "max_link_width", "255");
  EXPECT_EQ(gigabytes_per_s(), 0);
  EXPECT_EQ(pcie_bytes_per_s({.domain = 0, .bus = 1, .device = 0}, root_ / "bus"), std::nullopt);
}

TEST_F(PcieLinkTest, OfOtherCardsIsUnknown) {
  write(card(), "max_link_speed", "16.0 GT/s PCIe");
  write(card(), "max_link_width", "16");
  write(card(), "vendor", "0x8086");
  EXPECT_EQ(gigabytes_per_s(), 0);
}

}  // namespace
}  // namespace spillway::cuda
