// The kernel of an optimizer step: a tensor and its states go through the chip block by block, the
// next block being loaded before the last results are stored. Layer: platform, near.
#pragma once

#include <array>
#include <cstddef>

#include "optimizer/update.h"
#include "platform/near/kernel.h"

namespace spillway::near {

// Blocks of one size for all operands: 16 KiB of 32 bits.
inline constexpr std::size_t kNearBlockElements = kNearBlockBytes / 4;

class UpdateKernel final : public Kernel {
 public:
  // The operands are as the kernel sees them, and may be used until it has ended.
  UpdateKernel(const optimizer::Update& update, const optimizer::Step& step,
               const optimizer::Operands& operands, std::size_t elements);

  Status run(std::span<std::byte> on_chip) override;

 private:
  // The operands in memory, or those of one block on the chip.
  struct Streams {
    std::array<const std::byte*, 5> in{};  // parameter, gradient, states
    std::array<std::byte*, 4> out{};       // parameter, states
  };
  [[nodiscard]] std::size_t block_elements(std::size_t block) const;
  void load(std::size_t block, std::span<std::byte> on_chip) const;
  void compute(std::size_t block, std::span<std::byte> on_chip) const;
  void store(std::size_t block, std::span<std::byte> on_chip) const;

  optimizer::Update update_;
  optimizer::Step step_;
  Streams memory_;
  std::size_t elements_;
  std::array<std::size_t, 5> in_bytes_{};  // of an element
  std::size_t out_bytes_;
};

}  // namespace spillway::near
