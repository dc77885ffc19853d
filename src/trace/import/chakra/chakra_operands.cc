// Tensors of all devices are in one trace; the simulated device has those of one. Layer: trace.
#include "trace/import/chakra/chakra_operands.h"

#include <algorithm>

namespace spillway {
namespace {

void sort_once(Storages& storages) {
  std::sort(storages.begin(), storages.end());
  storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
}

}  // namespace

void ChakraOperands::choose_device(const std::vector<std::uint32_t>& operators) {
  std::vector<std::uint64_t> uses(file_.devices.size(), 0);
  for (const std::uint32_t node : operators) {
    for_each_use(node, [&](const ChakraUse& use, bool) { ++uses[use.device]; });
  }
  for (std::uint32_t device = 0; device < uses.size(); ++device) {
    const bool host = file_.devices[device] == "cpu";
    const bool was_host = on_host_;
    if (uses[device] > 0 && (device_ == kAny || (was_host && !host) ||
                             (was_host == host && uses[device] > uses[device_]))) {
      device_ = device;
      on_host_ = host;
    }
  }
}

UsedStorages ChakraOperands::of(std::uint32_t node) const {
  UsedStorages operands;
  for_each_use(node, [&](const ChakraUse& use, bool input) {
    (input ? operands.inputs : operands.outputs).push_back(use.storage);
    if (input && use.changed) {
      operands.outputs.push_back(use.storage);
      operands.changes = true;
    }
  });
  sort_once(operands.inputs);
  sort_once(operands.outputs);
  return operands;
}

}  // namespace spillway
