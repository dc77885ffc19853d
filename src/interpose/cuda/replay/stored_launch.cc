// See stored_launch.h.
#include "interpose/cuda/replay/stored_launch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {

StoredLaunch::StoredLaunch(const LaunchShape& shape, const KernelLayout& kernel,
                           void* const* parameters, std::span<const std::byte> block)
    : shape_(shape), bytes_(block.size()) {
  shape_.attributes = {};  // the program's, which go
  if (parameters != nullptr) {
    for (const KernelLayout::Parameter& parameter : kernel.parameters) {
      offsets_.push_back(parameter.offset);
      bytes_ = std::max(bytes_, parameter.offset + parameter.bytes);
    }
  }
  block_.resize(bytes_ / sizeof(Line) + (bytes_ % sizeof(Line) != 0 ? 1 : 0));
  if (!block.empty()) {
    std::memcpy(at(0), block.data(), block.size());
  }
  if (parameters != nullptr) {
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      std::memcpy(at(offsets_[i]), parameters[i], kernel.parameters[i].bytes);
    }
  }
}

CuResult StoredLaunch::launch(CuStream stream,
                              std::span<const CuLaunchAttribute> attributes) const {
  return with_parameters([&](void** singly, void** extra) {
    if (attributes.empty()) {
      return real().cuLaunchKernel(shape_.function, shape_.grid_x, shape_.grid_y, shape_.grid_z,
                                   shape_.block_x, shape_.block_y, shape_.block_z,
                                   shape_.shared_bytes, stream, singly, extra);
    }
    std::vector<CuLaunchAttribute> given(attributes.begin(), attributes.end());
    const CuLaunchConfig config{.grid_x = shape_.grid_x,
                                .grid_y = shape_.grid_y,
                                .grid_z = shape_.grid_z,
                                .block_x = shape_.block_x,
                                .block_y = shape_.block_y,
                                .block_z = shape_.block_z,
                                .shared_bytes = shape_.shared_bytes,
                                .stream = stream,
                                .attributes = given.data(),
                                .attribute_count = static_cast<unsigned>(given.size())};
    return real().cuLaunchKernelEx(&config, shape_.function, singly, extra);
  });
}

std::optional<LaunchShape> shape_of(const CuLaunchConfig& config, CuFunction function) {
  constexpr std::array kKnown = {
      kCuAttributeIgnore,      kCuAttributeClusterSize, kCuAttributeClusterScheduling,
      kCuAttributeStartsEarly, kCuAttributePriority,    kCuAttributePreferredClusterSize};
  const std::span<const CuLaunchAttribute> attributes(config.attributes, config.attribute_count);
  const bool known =
      std::all_of(attributes.begin(), attributes.end(), [&](const CuLaunchAttribute& it) {
        return std::find(kKnown.begin(), kKnown.end(), it.id) != kKnown.end();
      });
  return known ? std::optional<LaunchShape>({function, config.grid_x, config.grid_y, config.grid_z,
                                             config.block_x, config.block_y, config.block_z,
                                             config.shared_bytes, attributes})
               : std::nullopt;
}

bool starts_early(const CuLaunchConfig& config) {
  const std::span<const CuLaunchAttribute> attributes(config.attributes, config.attribute_count);
  return !shape_of(config, nullptr) ||
         std::any_of(attributes.begin(), attributes.end(), [](const CuLaunchAttribute& it) {
           int value = 0;
           std::memcpy(&value, it.value, sizeof value);
           return it.id == kCuAttributeStartsEarly && value != 0;
         });
}

}  // namespace spillway::cuda
