// Modes and kernels of the near device. See device.h.
#include <utility>

#include "platform/near/device.h"
#include "platform/near/operand_spans.h"
#include "platform/near/update_kernel.h"

namespace spillway::near {

Status Device::set_mode(std::uint32_t channel, Mode mode) {
  const Result<Channel*> found = channel_at(channel);
  return found ? (*found)->set_mode(mode) : tl::unexpected<Error>(found.error());
}

Result<Mode> Device::mode(std::uint32_t channel) const {
  const Result<Channel*> found = channel_at(channel);
  return found ? Result<Mode>((*found)->mode()) : tl::unexpected<Error>(found.error());
}

Result<KernelTicket> Device::update_async(std::uint32_t channel, const optimizer::Update& update,
                                          const optimizer::Step& step,
                                          const optimizer::Operands& given, std::size_t elements) {
  const Result<Channel*> found = channel_at(channel);
  if (!found) {
    return tl::unexpected<Error>(found.error());
  }
  const optimizer::Operands operands = needed_operands(update.options(), step, given);
  const Result<std::vector<OperandSpan>> spans =
      operand_spans(update.options(), step, operands, elements);
  if (!spans) {
    return tl::unexpected<Error>(spans.error());
  }
  std::vector<Span> uses;
  for (const OperandSpan& operand : *spans) {
    if (!(*found)->has(operand.span.start)) {
      const bool near = channel_of(operand.span.start) != nullptr;
      return make_error(ErrorCode::kInvalidInput,
                        "{} of the update, at {:#x}, is {}; copy it into memory of channel {}, "
                        "where the kernel runs",
                        operand.name, operand.span.start,
                        near ? "in another channel" : "not memory of this near device", channel);
    }
    uses.push_back(operand.span);
  }
  const auto in = [&](const void* at) -> const void* {
    return at == nullptr ? nullptr : (*found)->as_kernel(address_of(at));
  };
  const auto out = [&](void* at) -> void* {
    return at == nullptr ? nullptr : (*found)->as_kernel(address_of(at));
  };
  const optimizer::Operands seen{.parameter = in(operands.parameter),
                                 .gradient = in(operands.gradient),
                                 .first = in(operands.first),
                                 .second = in(operands.second),
                                 .max_second = in(operands.max_second),
                                 .parameter_out = out(operands.parameter_out),
                                 .first_out = out(operands.first_out),
                                 .second_out = out(operands.second_out),
                                 .max_second_out = out(operands.max_second_out),
                                 .gradient_out = nullptr};
  return launch(channel, std::make_unique<UpdateKernel>(update, step, seen, elements), uses);
}

Result<KernelTicket> Device::launch(std::uint32_t channel, std::unique_ptr<Kernel> kernel,
                                    std::span<const Span> uses) {
  const Result<Channel*> found = channel_at(channel);
  if (!found) {
    return tl::unexpected<Error>(found.error());
  }
  const Result<std::uint64_t> number = (*found)->launch(std::move(kernel), uses);
  if (!number) {
    return tl::unexpected<Error>(number.error());
  }
  return KernelTicket{.channel = channel, .number = *number};
}

Status Device::wait(KernelTicket kernel) {
  const Result<Channel*> found = channel_at(kernel.channel);
  return found ? (*found)->wait(kernel.number) : tl::unexpected<Error>(found.error());
}

Result<bool> Device::poll(KernelTicket kernel) const {
  const Result<Channel*> found = channel_at(kernel.channel);
  return found ? (*found)->poll(kernel.number) : tl::unexpected<Error>(found.error());
}

Status Device::synchronize(std::uint32_t channel) {
  const Result<Channel*> found = channel_at(channel);
  if (!found) {
    return tl::unexpected<Error>(found.error());
  }
  (*found)->wait_for_all();
  return {};
}

bool Device::idle() const {
  for (const std::unique_ptr<Channel>& channel : channels_) {
    if (!channel->idle()) {
      return false;
    }
  }
  return true;
}

}  // namespace spillway::near
