// See update_kernel.h.
#include "platform/near/update_kernel.h"

#include <algorithm>
#include <cstring>

#include "platform/near/memory/location.h"

namespace spillway::near {
namespace {

std::size_t bytes_of(optimizer::NumberType type) {
  return type == optimizer::NumberType::kFloat32 ? 4 : 2;
}

// Where block `block` of a queue lies on the chip: two blocks of each, used in turn.
std::byte* slot(std::span<std::byte> on_chip, std::size_t queue, std::size_t block) {
  return on_chip.data() + (2 * queue + block % 2) * kNearBlockBytes;
}

// Where the tensor's first element would lie if the whole of it stood where its block stands.
std::byte* before(std::byte* block_start, std::size_t bytes) {
  return std::bit_cast<std::byte*>(address_of(block_start) - bytes);
}

}  // namespace

UpdateKernel::UpdateKernel(const optimizer::Update& update, const optimizer::Step& step,
                           const optimizer::Operands& operands, std::size_t elements)
    : update_(update),
      step_(step),
      elements_(elements),
      out_bytes_(bytes_of(update.options().parameter_type)) {
  const auto in = [](const void* at) { return static_cast<const std::byte*>(at); };
  const auto out = [](void* at) { return static_cast<std::byte*>(at); };
  memory_.in = {in(operands.parameter), in(operands.gradient), in(operands.first),
                in(operands.second), in(operands.max_second)};
  memory_.out = {out(operands.parameter_out), out(operands.first_out), out(operands.second_out),
                 out(operands.max_second_out)};
  in_bytes_.fill(out_bytes_);
  in_bytes_[1] = bytes_of(update.options().gradient_type);
}

std::size_t UpdateKernel::block_elements(std::size_t block) const {
  return std::min(kNearBlockElements, elements_ - block * kNearBlockElements);
}

void UpdateKernel::load(std::size_t block, std::span<std::byte> on_chip) const {
  for (std::size_t i = 0; i < memory_.in.size(); ++i) {
    if (memory_.in[i] != nullptr) {
      std::memcpy(slot(on_chip, i, block),
                  memory_.in[i] + block * kNearBlockElements * in_bytes_[i],
                  block_elements(block) * in_bytes_[i]);
    }
  }
}

void UpdateKernel::compute(std::size_t block, std::span<std::byte> on_chip) const {
  const std::size_t begin = block * kNearBlockElements;
  std::array<const std::byte*, 5> in{};
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] =
        memory_.in[i] == nullptr ? nullptr : before(slot(on_chip, i, block), begin * in_bytes_[i]);
  }
  std::array<std::byte*, 4> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = memory_.out[i] == nullptr
                 ? nullptr
                 : before(slot(on_chip, in.size() + i, block), begin * out_bytes_);
  }
  update_.run(step_,
              {.parameter = in[0],
               .gradient = in[1],
               .first = in[2],
               .second = in[3],
               .max_second = in[4],
               .parameter_out = out[0],
               .first_out = out[1],
               .second_out = out[2],
               .max_second_out = out[3],
               .gradient_out = nullptr},
              elements_, begin, begin + block_elements(block));
}

void UpdateKernel::store(std::size_t block, std::span<std::byte> on_chip) const {
  for (std::size_t i = 0; i < memory_.out.size(); ++i) {
    if (memory_.out[i] != nullptr) {
      std::memcpy(memory_.out[i] + block * kNearBlockElements * out_bytes_,
                  slot(on_chip, memory_.in.size() + i, block), block_elements(block) * out_bytes_);
    }
  }
}

Status UpdateKernel::run(std::span<std::byte> on_chip) {
  const std::size_t blocks = (elements_ + kNearBlockElements - 1) / kNearBlockElements;
  load(0, on_chip);
  for (std::size_t block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load(block + 1, on_chip);
    }
    compute(block, on_chip);
    if (block > 0) {
      store(block - 1, on_chip);
    }
  }
  store(blocks - 1, on_chip);
  return {};
}

}  // namespace spillway::near
