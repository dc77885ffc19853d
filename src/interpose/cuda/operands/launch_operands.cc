// See launch_operands.h.
#include "interpose/cuda/operands/launch_operands.h"

#include <atomic>

#include "interpose/cuda/operands/registered_kernels.h"

namespace spillway::cuda {
namespace {

// From the first byte of the first row to the last of the last.
template <typename Side>
void add_side(Operands& operands, const Side& side, Bytes offset, Bytes bytes, AccessMode mode) {
  if (side.type == CuMemoryType::kDevice || side.type == CuMemoryType::kUnified) {
    operands.add(side.device + offset, bytes, mode);
  } else if (side.type == CuMemoryType::kHost) {
    operands.add(reinterpret_cast<std::uint64_t>(side.host) + offset, bytes, mode);
  }
}

void add_side(Operands& operands, const CuCopy2d& copy, const CuCopy2d::Side& side,
              AccessMode mode) {
  if (copy.width_bytes > 0 && copy.height > 0) {
    add_side(operands, side, side.y * side.pitch_bytes + side.x_bytes,
             (copy.height - 1) * side.pitch_bytes + copy.width_bytes, mode);
  }
}

Bytes row_bytes(const CuCopy3d& copy, const CuCopy3d::Side& side) {
  return side.pitch_bytes != 0 ? side.pitch_bytes : side.x_bytes + copy.width_bytes;
}

Bytes slice_bytes(const CuCopy3d& copy, const CuCopy3d::Side& side) {
  return row_bytes(copy, side) * (side.height != 0 ? side.height : side.y + copy.height);
}

// Of its first byte.
Bytes offset_of(const CuCopy3d& copy, const CuCopy3d::Side& side) {
  return side.z * slice_bytes(copy, side) + side.y * row_bytes(copy, side) + side.x_bytes;
}

void add_side(Operands& operands, const CuCopy3d& copy, const CuCopy3d::Side& side,
              AccessMode mode) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) {
    return;
  }
  const Bytes row = row_bytes(copy, side);
  const Bytes slice = slice_bytes(copy, side);
  add_side(operands, side, offset_of(copy, side),
           (copy.depth - 1) * slice + (copy.height - 1) * row + copy.width_bytes, mode);
}

}  // namespace

std::span<const std::byte> parameter_block(void* const* extra) {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; extra != nullptr && reinterpret_cast<std::uintptr_t>(*extra) != kCuExtraEnd; extra += 2) {
    const auto what = reinterpret_cast<std::uintptr_t>(*extra);
    if (what == kCuExtraBuffer) {
      buffer = extra[1];
    } else if (what == kCuExtraBufferBytes) {
      bytes = *static_cast<const std::size_t*>(extra[1]);
    }
  }
  return buffer == nullptr ? std::span<const std::byte>()
                           : std::span(static_cast<const std::byte*>(buffer), bytes);
}

void add_parameters(Operands& operands, const KernelLayout& kernel, const AddressUse& use,
                    void* const* parameters, void* const* extra) {
  const AccessMode given = use.stores ? AccessMode::kExpose : AccessMode::kReadWrite;
  const auto mode_of = [&](std::size_t i) { return use.values == i ? AccessMode::kExpose : given; };
  if (use.stores) {
    operands.exposes_what_it_finds();
  }
  if (use.reaches) {
    operands.follows_addresses();
  }
  const std::span<const std::byte> block = parameter_block(extra);
  // Which of them are values is not looked up in a block.
  operands.add_pointers_in(block.data(), block.size(), use.values ? AccessMode::kExpose : given);
  if (parameters == nullptr) {
    return;
  }
  if (!kernel.known) {
    static std::atomic<bool> told{false};
    say_once(told,
             "the driver does not tell where the parameters of a kernel lie: all memory is "
             "made resident for it");
    operands.add_everything();
    return;
  }
  const auto is_told_read = [&](std::size_t i) {
    return i < kernel.roles.size() && kernel.roles[i] == kOnlyRead &&
           kernel.parameters[i].bytes == sizeof(std::uint64_t);
  };
  const auto only_read = [&](std::size_t i) {
    return kernel.reads && i == kernel.reads->parameter;
  };
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const KernelLayout::Parameter& parameter = kernel.parameters[i];
    if (is_told_read(i)) {
      continue;
    }
    if (only_read(i)) {
      operands.add_pointers_in(parameters[i], sizeof(std::uint64_t), mode_of(i));
      continue;
    }
    // Pointers lie at multiples of their size in the block.
    const std::size_t skipped =
        round_up(parameter.offset, sizeof(std::uint64_t)) - parameter.offset;
    if (parameter.bytes >= skipped + sizeof(std::uint64_t)) {
      operands.add_pointers_in(static_cast<const char*>(parameters[i]) + skipped,
                               parameter.bytes - skipped, mode_of(i));
    }
  }
  // Last: what is named as anything else as well may be written.
  if (kernel.reads) {
    operands.add_pointers_in(
        static_cast<const char*>(parameters[kernel.reads->parameter]) + sizeof(std::uint64_t),
        (kernel.reads->pointers - 1) * sizeof(std::uint64_t), AccessMode::kRead);
  }
  for (std::size_t i = 0; i < kernel.roles.size(); ++i) {
    if (is_told_read(i)) {
      operands.add_pointers_in(parameters[i], sizeof(std::uint64_t), AccessMode::kRead);
    }
  }
}

void add_copy(Operands& operands, const CuCopy2d& copy) {
  add_side(operands, copy, copy.from, AccessMode::kRead);
  add_side(operands, copy, copy.to, AccessMode::kWrite);
}

void add_copy(Operands& operands, const CuCopy3d& copy) {
  add_side(operands, copy, copy.from, AccessMode::kRead);
  add_side(operands, copy, copy.to, AccessMode::kWrite);
}

void add_memset(Operands& operands, const CuMemsetNode& set) {
  const Bytes row = set.width * set.element_bytes;
  if (row > 0 && set.height > 0) {
    operands.add(set.to, (set.height - 1) * set.pitch_bytes + row, AccessMode::kWrite);
  }
}

std::uint64_t first_byte(const CuCopy3d& copy, const CuCopy3d::Side& side) {
  return (side.type == CuMemoryType::kHost ? reinterpret_cast<std::uint64_t>(side.host)
                                           : side.device) +
         offset_of(copy, side);
}

void add_stream_operation(Operands& operands, const CuStreamOperation& operation) {
  switch (operation.type) {
    case CuStreamOperationType::kWaitValue32:
    case CuStreamOperationType::kWriteValue32:
      operands.add(operation.address, sizeof(std::uint32_t), AccessMode::kReadWrite);
      break;
    case CuStreamOperationType::kWaitValue64:
    case CuStreamOperationType::kWriteValue64:
      operands.add(operation.address, sizeof(std::uint64_t), AccessMode::kReadWrite);
      break;
    case CuStreamOperationType::kBarrier:
    case CuStreamOperationType::kFlushRemoteWrites:
      break;  // they have no address
    default:  // of a later driver: wherever its address stands
      operands.add_pointers_in(&operation, sizeof operation);
  }
}

}  // namespace spillway::cuda
