// Links and storage shared fairly: flows of bytes over a few resources. Layer: platform, simulator.
// Rates are max-min fair: no flow could have more without another having less, and no resource ever
// carries more than the machine says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

namespace spillway::sim {

enum class Resource : std::uint8_t {
  kToDevice,
  kFromDevice,
  kStorageRead,
  kStorageWrite,
  kBothWays,  // what the first two share
};
inline constexpr std::size_t kResourceCount = 5;

// One bit a resource.
using ResourceSet = std::uint8_t;
[[nodiscard]] constexpr ResourceSet bit(Resource resource) {
  return static_cast<ResourceSet>(1U << static_cast<unsigned>(resource));
}
[[nodiscard]] constexpr bool has(ResourceSet set, std::size_t resource) {
  return (static_cast<unsigned>(set) >> resource & 1U) != 0;
}

class FairShare {
 public:
  explicit FairShare(const std::array<double, kResourceCount>& bytes_per_s);

  // A flow over `resources`, one or more, each of which must have bandwidth. The key comes back
  // when the flow completes; keys need not be unique.
  void start(std::uint64_t key, ResourceSet resources, Bytes bytes, TimeNs now_ns);

  // What the resource carries from now on.
  void set_bandwidth(Resource resource, double bytes_per_s, TimeNs now_ns);

  // When the next flow completes if none starts before; nullopt without flows.
  [[nodiscard]] std::optional<TimeNs> next_completion_ns() const;
  // The same of those that the resource carries.
  [[nodiscard]] std::optional<TimeNs> next_completion_ns(Resource resource) const;
  // The key of a flow that has completed by now_ns, each once; nullopt if there is none.
  std::optional<std::uint64_t> take_completed(TimeNs now_ns);

  [[nodiscard]] bool idle() const { return flows_.empty(); }
  // Bytes that the resource has carried so far, for checking against its bandwidth.
  [[nodiscard]] double carried_bytes(Resource resource) const {
    return carried_[static_cast<std::size_t>(resource)];
  }

 private:
  struct Flow {
    std::uint64_t key;
    ResourceSet resources;
    double left_bytes;
    double bytes_per_ns;
  };
  void advance(TimeNs now_ns);
  void share();
  [[nodiscard]] std::optional<TimeNs> next_completion_of(ResourceSet resources) const;

  std::array<double, kResourceCount> bytes_per_ns_{};
  std::array<double, kResourceCount> carried_{};
  std::vector<Flow> flows_;
  TimeNs now_ns_ = 0;
};

}  // namespace spillway::sim
