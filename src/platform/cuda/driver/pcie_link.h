// How fast the link between a GPU and this machine's memory can be, as the kernel tells it of PCIe.
// Layer: platform, cuda. Measures nothing, so it costs nothing.
#pragma once

#include <filesystem>
#include <optional>

namespace spillway::cuda {

struct PciAddress {
  int domain = 0;
  int bus = 0;
  int device = 0;
};

// Bytes a second each way, before what packets cost (a tenth to a seventh of it): of the slower of
// card and slot, over the lanes that are connected. nullopt if the kernel does not tell it, or
// that is no NVIDIA card. `devices` stands for the kernel's folder in tests.
[[nodiscard]] std::optional<double> pcie_bytes_per_s(
    const PciAddress& address, const std::filesystem::path& devices = "/sys/bus/pci/devices");

}  // namespace spillway::cuda
