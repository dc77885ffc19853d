// What must hold for a machine as a whole. Layer: machine.
#include "machine/fields.h"
#include "machine/load.h"

namespace spillway {
namespace {

constexpr Bytes kMostEraseBlocks = Bytes{1} << 28U;  // over-provisioned fourfold, still 32 bits

bool power_of_two(Bytes value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

std::optional<MachineProblem> find_problem(const Machine& machine) {
  for (const Field& field : machine_fields()) {
    if (!field_in_bounds(machine, field)) {
      return MachineProblem{
          field.key(), fmt::format("{} is not allowed; expected {}", field_as_toml(machine, field),
                                   expected_value(field))};
    }
  }
  // Each value may stand alone from here on; these are about how they fit together.
  const DeviceTier& device = machine.device;
  if (!power_of_two(device.frame_bytes)) {
    return MachineProblem{"device.frame", "expected a power of two from 4KiB to 2MiB"};
  }
  if (device.capacity_bytes < device.frame_bytes) {
    return MachineProblem{"device.capacity", "expected at least one frame (device.frame)"};
  }
  if (device.block_bytes % device.frame_bytes != 0) {
    return MachineProblem{"device.block", "expected a multiple of device.frame"};
  }
  const HostTier& host = machine.host;
  if (host.cores > 0 && host.core_bytes_per_s == 0) {
    return MachineProblem{"host.core_bandwidth", "expected more than 0, for host.cores is given"};
  }
  if (host.cores == 0 && host.core_bytes_per_s > 0) {
    return MachineProblem{"host.cores", "expected more than 0, for host.core_bandwidth is given"};
  }
  const StorageTier& storage = machine.storage;
  if (storage.erase_block_bytes % storage.flash_page_bytes != 0) {
    return MachineProblem{"storage.erase_block", "expected a multiple of storage.flash_page"};
  }
  if (storage.capacity_bytes == 0) {
    return std::nullopt;
  }
  if (storage.read_bytes_per_s == 0) {
    return MachineProblem{"storage.read_bandwidth", "expected more than 0, for there is storage"};
  }
  if (storage.write_bytes_per_s == 0) {
    return MachineProblem{"storage.write_bandwidth", "expected more than 0, for there is storage"};
  }
  if (storage.capacity_bytes < storage.flash_page_bytes) {
    return MachineProblem{"storage.capacity", "expected at least one page (storage.flash_page)"};
  }
  if (storage.capacity_bytes / storage.erase_block_bytes > kMostEraseBlocks) {
    return MachineProblem{"storage.erase_block", "expected more for so large a storage.capacity"};
  }
  return std::nullopt;
}

Status validate_machine(const Machine& machine) {
  if (const auto problem = find_problem(machine)) {
    return make_error(ErrorCode::kInvalidInput, "machine {}: {}: {}", machine.name, problem->key,
                      problem->message);
  }
  return {};
}

}  // namespace spillway
