// See kept_launch.h.
#include "front/cuda/kept_launch.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "front/cuda/hook_table.h"

namespace spillway::cuda {
namespace {

class LaunchAgain final : public Relaunch {
 public:
  LaunchAgain(const LaunchShape& shape, const KernelLayout& kernel, void* const* parameters)
      : shape_(shape) {
    std::size_t bytes = 0;
    for (const KernelLayout::Parameter& parameter : kernel.parameters) {
      offsets_.push_back(parameter.offset);
      bytes = std::max(bytes, parameter.offset + parameter.bytes);
    }
    block_.resize((bytes + sizeof(Word) - 1) / sizeof(Word));
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      std::memcpy(at(offsets_[i]), parameters[i], kernel.parameters[i].bytes);
    }
  }

  [[nodiscard]] CuResult launch(CuStream stream) const override {
    std::vector<void*> parameters;
    for (const std::size_t offset : offsets_) {
      parameters.push_back(at(offset));
    }
    return real().cuLaunchKernel(shape_.function, shape_.grid_x, shape_.grid_y, shape_.grid_z,
                                 shape_.block_x, shape_.block_y, shape_.block_z,
                                 shape_.shared_bytes, stream, parameters.data(), nullptr);
  }

 private:
  struct alignas(16) Word {
    std::byte bytes[16];
  };
  // The driver takes places to be written to, and only reads.
  [[nodiscard]] void* at(std::size_t offset) const {
    return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(block_.data())) + offset;
  }

  LaunchShape shape_;
  std::vector<std::size_t> offsets_;
  std::vector<Word> block_;  // of parameters
};

// The operand that the launch writes; nullptr where it may write more, or reads anything else.
const CudaOperand* only_result(const Session& session, const KernelLayout& kernel,
                               void* const* parameters, std::span<const CudaOperand> operands) {
  // An address in the functor is an operand that may be written.
  const auto written = [](const CudaOperand& operand) { return writes(operand.mode); };
  const auto result = std::find_if(operands.begin(), operands.end(), written);
  if (result == operands.end() || std::any_of(result + 1, operands.end(), written)) {
    return nullptr;
  }
  for (std::size_t i = 0; i < kernel.reads->pointers; ++i) {
    std::uint64_t address = 0;
    std::memcpy(
        &address,
        static_cast<const std::byte*>(parameters[kernel.reads->parameter]) + i * sizeof address,
        sizeof address);
    const bool in_result = address >= result->address && address < result->address + result->bytes;
    // What is not the space's could change without our knowledge.
    if (in_result != (i == 0) || !session.platform->allocation_of(address)) {
      return nullptr;
    }
  }
  return &*result;
}

}  // namespace

std::optional<KeptLaunch> keep_launch(const Session& session, const LaunchShape& shape,
                                      const KernelLayout& kernel, void* const* parameters,
                                      std::span<const CudaOperand> operands) {
  const CudaOperand* const result = only_result(session, kernel, parameters, operands);
  if (result == nullptr) {
    return std::nullopt;
  }
  return KeptLaunch{.makes = *result,
                    .how = std::make_shared<const LaunchAgain>(shape, kernel, parameters)};
}

}  // namespace spillway::cuda
