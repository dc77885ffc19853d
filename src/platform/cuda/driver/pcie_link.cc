// See pcie_link.h.
#include "platform/cuda/driver/pcie_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

namespace spillway::cuda {
namespace {

// The number with which the file begins; 0 if there is none. ("16.0 GT/s PCIe"; "Unknown".)
double number_in(const std::filesystem::path& file) {
  double number = 0;
  std::ifstream(file) >> number;
  return std::max(number, 0.0);
}

std::string vendor_of(const std::filesystem::path& device) {
  std::string vendor;
  std::ifstream(device / "vendor") >> vendor;
  return vendor;
}

// A slot that a virtual machine's monitor makes up says nothing of the real one. (Red Hat's number,
// QEMU's ports.)
bool is_virtual(const std::filesystem::path& slot) { return vendor_of(slot) == "0x1b36"; }

// Up to 5 GT/s ten bits carry a byte, then 130 bits 16 bytes.
double bytes_per_transfer(double gigatransfers) { return gigatransfers > 5 ? 16.0 / 130 : 0.1; }

}  // namespace

std::optional<double> pcie_bytes_per_s(const PciAddress& address,
                                       const std::filesystem::path& devices) {
  const std::filesystem::path link =
      devices / fmt::format("{:04x}:{:02x}:{:02x}.0", address.domain, address.bus, address.device);
  // What a card is plugged into is the folder that holds the card's.
  std::error_code missing;
  const std::filesystem::path card = std::filesystem::canonical(link, missing);
  if (missing || vendor_of(card) != "0x10de") {
    return std::nullopt;
  }
  // The current speed is lower while the card is idle; the lanes stay.
  double gigatransfers = number_in(card / "max_link_speed");
  const std::filesystem::path slot = card.parent_path();
  if (const double speed = number_in(slot / "max_link_speed"); speed > 0 && !is_virtual(slot)) {
    gigatransfers = std::min(gigatransfers, speed);
  }
  double lanes = number_in(card / "max_link_width");
  if (const double connected = number_in(card / "current_link_width"); connected > 0) {
    lanes = std::min(lanes, connected);
  }
  if (gigatransfers <= 0 || lanes <= 0) {
    return std::nullopt;
  }
  return gigatransfers * 1e9 * bytes_per_transfer(gigatransfers) * lanes;
}

}  // namespace spillway::cuda
