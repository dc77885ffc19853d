// Which storages an operator of a Chakra trace uses, on the device that the trace is about.
// Layer: trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/import/chakra/chakra_file.h"

namespace spillway {

using Storages = std::vector<std::uint64_t>;  // sorted, each once

// What one operator uses.
struct UsedStorages {
  Storages inputs;
  Storages outputs;  // and what it changes
  bool changes = false;
};

// `file` must outlive this.
class ChakraOperands {
 public:
  explicit ChakraOperands(const ChakraFile& file) : file_(file) {}

  // The one that `operators` use most; the host only where they use no other. Before that, and
  // where they use none, uses of all devices count.
  void choose_device(const std::vector<std::uint32_t>& operators);
  [[nodiscard]] bool on_host() const { return on_host_; }
  // Its name; there is one where on_host() is false.
  [[nodiscard]] const std::string& device() const { return file_.devices[device_]; }

  [[nodiscard]] UsedStorages of(std::uint32_t node) const;

  // Calls `what` with each use that has bytes on the device, and whether it is an input.
  template <typename What>
  void for_each_use(std::uint32_t index, const What& what) const {
    const ChakraNode& node = file_.nodes[index];
    for (std::uint32_t i = 0; i < node.inputs + node.outputs; ++i) {
      const ChakraUse& use = file_.uses[node.first_use + i];
      if (use.bytes > 0 && (device_ == kAny || use.device == device_)) {
        what(use, i < node.inputs);
      }
    }
  }

 private:
  static constexpr std::uint32_t kAny = ~0U;

  const ChakraFile& file_;
  std::uint32_t device_ = kAny;
  bool on_host_ = true;
};

}  // namespace spillway
