// See kept_launch.h.
#include "front/cuda/kept_launch.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
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
    parameters.reserve(offsets_.size());
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

// Whether some word of the functor may be an address, of whatever memory: numbers that programs
// have there seldom look like one.
bool holds_address(const KernelLayout& kernel, void* const* parameters) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 16U;
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 47U;
  const std::size_t bytes = kernel.parameters[KnownReads::kFunctor].bytes;
  const auto* const functor = static_cast<const std::byte*>(parameters[KnownReads::kFunctor]);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, functor + at, sizeof word);
    if (word >= kFirst && word < kEnd) {
      return true;
    }
  }
  return false;
}

// Whatever decides which bytes it writes.
std::uint64_t kind_of(const CudaOperand& makes, const LaunchShape& shape,
                      const KernelLayout& kernel, void* const* parameters) {
  const KnownReads reads = kernel.reads.value_or(KnownReads{});
  std::string all;
  const auto add = [&all](const void* bytes, std::size_t count) {
    all.append(static_cast<const char*>(bytes), count);
  };
  add(&kernel.hash, sizeof kernel.hash);
  add(&makes.bytes, sizeof makes.bytes);
  for (const unsigned count :
       {shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y, shape.block_z}) {
    add(&count, sizeof count);
  }
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    // Structures without members take a byte, which holds anything.
    if (i != KnownReads::kFunctor && i != reads.parameter && kernel.parameters[i].bytes > 1) {
      add(parameters[i], kernel.parameters[i].bytes);
    }
  }
  return hash_launch(all, {}).first;
}

}  // namespace

std::optional<CudaOperand> only_result(const Session& session, const KernelLayout& kernel,
                                       void* const* parameters,
                                       std::span<const CudaOperand> operands) {
  const auto written = [](const CudaOperand& operand) { return writes(operand.mode); };
  const auto result = std::find_if(operands.begin(), operands.end(), written);
  const KnownReads reads = kernel.reads.value_or(KnownReads{});
  if (!reads.of_pytorch || parameters == nullptr || result == operands.end() ||
      std::any_of(result + 1, operands.end(), written) || holds_address(kernel, parameters)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < reads.pointers; ++i) {
    std::uint64_t address = 0;
    std::memcpy(&address,
                static_cast<const std::byte*>(parameters[reads.parameter]) + i * sizeof address,
                sizeof address);
    const bool in_result = address >= result->address && address < result->address + result->bytes;
    // What is not the space's could change without our knowledge.
    if (in_result != (i == 0) || (i == 0 && address != result->address) ||
        !session.platform->allocation_of(address)) {
      return std::nullopt;
    }
  }
  const std::optional<Bytes> asked_bytes = session.heap->bytes_of_at_once(result->address);
  if (!asked_bytes) {
    return std::nullopt;
  }
  return CudaOperand{.address = result->address, .bytes = *asked_bytes, .mode = result->mode};
}

KeptLaunch keep_launch(const CudaOperand& makes, const LaunchShape& shape,
                       const KernelLayout& kernel, void* const* parameters) {
  return {.makes = makes,
          .kind = kind_of(makes, shape, kernel, parameters),
          .how = std::make_shared<const LaunchAgain>(shape, kernel, parameters)};
}

}  // namespace spillway::cuda
