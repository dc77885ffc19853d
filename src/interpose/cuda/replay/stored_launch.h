// A kernel's launch with all that it is given by value, to be made at another time: its shape
// and its parameters. Layer: interpose, cuda.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "interpose/cuda/operands/kernel_layouts.h"

namespace spillway::cuda {

struct LaunchShape {
  CuFunction function = nullptr;
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned grid_z = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  unsigned block_z = 1;
  unsigned shared_bytes = 0;
  std::span<const CuLaunchAttribute> attributes = {};
};

// With attributes that say how it runs, and not what it may do besides; nullopt: with others.
[[nodiscard]] std::optional<LaunchShape> shape_of(const CuLaunchConfig& config,
                                                  CuFunction function);
// Whether a kernel may start before the one before it on its stream has ended.
[[nodiscard]] bool starts_early(const CuLaunchConfig& config);

// Its const members may be called by several threads at once.
class StoredLaunch {
 public:
  // Everything is copied but the shape's attributes. `parameters` are the kernel's as it declares
  // them, `block` is what is given instead of them, or empty.
  StoredLaunch(const LaunchShape& shape, const KernelLayout& kernel, void* const* parameters,
               std::span<const std::byte> block);

  // The parameters in one block, each where the kernel's layout says.
  [[nodiscard]] std::span<std::byte> block() { return {at(0), bytes_}; }
  // `call` is given both as a launch takes them.
  template <typename Call>
  auto with_parameters(const Call& call) const {
    std::vector<void*> singly;
    singly.reserve(offsets_.size());
    for (const std::size_t offset : offsets_) {
      singly.push_back(at(offset));
    }
    std::size_t bytes = bytes_;
    // NOLINTBEGIN(performance-no-int-to-ptr): numbers that say what follows
    void* extra[] = {reinterpret_cast<void*>(kCuExtraBuffer), at(0),
                     reinterpret_cast<void*>(kCuExtraBufferBytes), &bytes,
                     reinterpret_cast<void*>(kCuExtraEnd)};
    // NOLINTEND(performance-no-int-to-ptr)
    return call(offsets_.empty() ? nullptr : singly.data(),
                offsets_.empty() && bytes_ > 0 ? extra : nullptr);
  }
  // The driver's own call.
  [[nodiscard]] CuResult launch(CuStream stream,
                                std::span<const CuLaunchAttribute> attributes) const;

 private:
  struct alignas(alignof(CuTensorMap)) Line {
    std::byte bytes[alignof(CuTensorMap)];
  };
  // The driver takes places to be written to, and only reads.
  [[nodiscard]] std::byte* at(std::size_t offset) const {
    return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(block_.data())) + offset;
  }

  LaunchShape shape_;
  std::vector<std::size_t> offsets_;
  std::vector<Line> block_;  // of parameters
  std::size_t bytes_ = 0;    // of them
};

}  // namespace spillway::cuda
