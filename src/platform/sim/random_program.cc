// Dice that keep to the rules of a program. See random_program.h.
#include "platform/sim/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway::sim {
namespace {

constexpr double kSameOrder = 0.85;  // that the next kernel is the one that came next last time
constexpr double kSameKernel = 0.9;  // that a kernel uses what it used last time

constexpr std::array kActionNames{"allocate",
                                  "free",
                                  "discard eagerly",
                                  "discard lazily",
                                  "prefetch",
                                  "pre_evict to host",
                                  "pre_evict to storage",
                                  "launch",
                                  "set budget",
                                  "set host"};

AccessMode random_mode(Rng& rng) {
  const std::uint64_t dice = rng.below(10);
  return dice < 4   ? AccessMode::kRead
         : dice < 6 ? AccessMode::kWrite
         : dice < 8 ? AccessMode::kReadWrite
                    : AccessMode::kOverwrite;
}

bool overlap(const BufferUse& a, const BufferUse& b) {
  return a.buffer == b.buffer && a.first_block < b.first_block + b.block_count &&
         b.first_block < a.first_block + a.block_count;
}

}  // namespace

std::string describe(const ProgramAction& action) {
  const std::string_view name = kActionNames[static_cast<std::size_t>(action.kind)];
  if (action.kind == ActionKind::kSetBudget || action.kind == ActionKind::kSetHost) {
    return fmt::format("{} {}", name, action.bytes);
  }
  if (action.kind != ActionKind::kLaunch) {
    return fmt::format("{} buffer {} ({} bytes)", name, action.buffer, action.bytes);
  }
  std::string text = fmt::format("launch {} kernel {}", action.launch, action.kernel);
  for (const BufferUse& use : action.uses) {
    constexpr std::array kModes{"reads", "writes", "updates", "overwrites"};
    text += fmt::format(", {} {}[{}+{}]", kModes[static_cast<std::size_t>(use.mode)], use.buffer,
                        use.first_block, use.block_count);
  }
  return text;
}

RandomProgram::RandomProgram(const ProgramShape& shape, std::uint64_t seed)
    : shape_(shape), rng_(seed), buffers_(shape.buffers_max), kernels_(shape.kernels) {}

ProgramAction RandomProgram::next() {
  while (true) {
    const std::uint64_t dice = rng_.below(100);
    std::optional<ProgramAction> action;
    if (dice < 15) {
      action = allocate();
    } else if (dice < 65) {
      action = launch();
    } else if (dice < 97) {
      action = change();
    } else {
      action = set_limits();
    }
    if (action) {
      return *action;
    }
  }
}

void RandomProgram::finished(std::uint64_t launch) {
  std::erase_if(in_flight_, [&](const InFlight& one) { return one.launch == launch; });
}

std::optional<ProgramAction> RandomProgram::free_one() {
  for (std::uint32_t buffer = 0; buffer < buffers_.size(); ++buffer) {
    if (buffers_[buffer].live && !in_use(buffer)) {
      return free(buffer);
    }
  }
  return std::nullopt;
}

std::uint32_t RandomProgram::blocks_of(Bytes bytes) {
  return static_cast<std::uint32_t>((bytes + kBlockBytes - 1) / kBlockBytes);
}

std::optional<std::uint32_t> RandomProgram::random_buffer() {
  const auto buffer = static_cast<std::uint32_t>(rng_.below(buffers_.size()));
  return buffers_[buffer].live ? std::optional(buffer) : std::nullopt;
}

bool RandomProgram::in_use(std::uint32_t buffer) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [&](const InFlight& one) {
    return std::any_of(one.uses.begin(), one.uses.end(),
                       [&](const BufferUse& use) { return use.buffer == buffer; });
  });
}

bool RandomProgram::races(const BufferUse& use) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [&](const InFlight& one) {
    return std::any_of(one.uses.begin(), one.uses.end(), [&](const BufferUse& other) {
      return overlap(use, other) && (writes(use.mode) || writes(other.mode));
    });
  });
}

bool RandomProgram::still_there(const Kernel& kernel) const {
  for (std::size_t i = 0; i < kernel.uses.size(); ++i) {
    const Buffer& buffer = buffers_[kernel.uses[i].buffer];
    if (!buffer.live || buffer.generation != kernel.generations[i]) {
      return false;
    }
  }
  return !kernel.uses.empty();
}

// Sizes from a single byte to the largest, small ones as likely as large ones.
std::optional<ProgramAction> RandomProgram::allocate() {
  const auto buffer = static_cast<std::uint32_t>(rng_.below(buffers_.size()));
  const std::uint64_t kind = rng_.below(4);
  const Bytes most = kind == 0   ? kPageBytes
                     : kind == 1 ? std::min(64 * kKiB, shape_.buffer_bytes_max)
                                 : shape_.buffer_bytes_max;
  const Bytes bytes = 1 + rng_.below(most);
  if (buffers_[buffer].live || live_bytes_ + bytes > shape_.live_bytes_max) {
    return std::nullopt;
  }
  buffers_[buffer] = {.bytes = bytes, .live = true, .generation = ++generations_};
  live_bytes_ += bytes;
  return ProgramAction{.kind = ActionKind::kAllocate, .buffer = buffer, .bytes = bytes};
}

ProgramAction RandomProgram::free(std::uint32_t buffer) {
  buffers_[buffer].live = false;
  live_bytes_ -= buffers_[buffer].bytes;
  return {.kind = ActionKind::kFree, .buffer = buffer, .bytes = buffers_[buffer].bytes};
}

RandomProgram::Kernel RandomProgram::make_kernel() {
  Kernel kernel;
  const std::uint64_t uses = 1 + rng_.below(6);
  Bytes bytes = 0;
  for (std::uint64_t i = 0; i < uses; ++i) {
    const std::optional<std::uint32_t> buffer = random_buffer();
    if (!buffer) {
      continue;
    }
    const std::uint32_t blocks = blocks_of(buffers_[*buffer].bytes);
    BufferUse use{.buffer = *buffer, .block_count = blocks, .mode = random_mode(rng_)};
    if (rng_.chance(0.3)) {
      use.first_block = static_cast<std::uint32_t>(rng_.below(blocks));
      use.block_count = 1 + static_cast<std::uint32_t>(rng_.below(blocks - use.first_block));
    }
    const bool twice = std::any_of(kernel.uses.begin(), kernel.uses.end(),
                                   [&](const BufferUse& other) { return overlap(use, other); });
    bytes += std::min<Bytes>(use.block_count * kBlockBytes, buffers_[*buffer].bytes);
    if (twice || bytes > shape_.launch_bytes_max) {
      continue;
    }
    kernel.uses.push_back(use);
    kernel.generations.push_back(buffers_[*buffer].generation);
  }
  return kernel;
}

// May be a prefetch instead, of an operand that was discarded lazily.
std::optional<ProgramAction> RandomProgram::launch() {
  if (in_flight_.size() >= shape_.launches_in_flight_max) {
    return std::nullopt;
  }
  const auto kernel = static_cast<std::uint32_t>(
      rng_.chance(kSameOrder) ? next_kernel_ : rng_.below(kernels_.size()));
  if (!still_there(kernels_[kernel]) || !rng_.chance(kSameKernel)) {
    kernels_[kernel] = make_kernel();
  }
  const std::vector<BufferUse>& uses = kernels_[kernel].uses;
  if (uses.empty() ||
      std::any_of(uses.begin(), uses.end(), [&](const BufferUse& use) { return races(use); })) {
    return std::nullopt;
  }
  for (const BufferUse& use : uses) {
    Buffer& buffer = buffers_[use.buffer];
    if (buffer.needs_prefetch) {
      buffer.needs_prefetch = false;
      return ProgramAction{
          .kind = ActionKind::kPrefetch, .buffer = use.buffer, .bytes = buffer.bytes};
    }
  }
  next_kernel_ = (kernel + 1) % static_cast<std::uint32_t>(kernels_.size());
  in_flight_.push_back({.launch = ++launches_, .uses = uses});
  return ProgramAction{.kind = ActionKind::kLaunch,
                       .launch = launches_,
                       .kernel = kernel,
                       .duration_ns = static_cast<TimeNs>(
                           rng_.below(static_cast<std::uint64_t>(shape_.duration_ns_max) + 1)),
                       .uses = uses};
}

// Something that happens to one buffer.
std::optional<ProgramAction> RandomProgram::change() {
  const std::optional<std::uint32_t> buffer = random_buffer();
  if (!buffer) {
    return std::nullopt;
  }
  ProgramAction action{.buffer = *buffer, .bytes = buffers_[*buffer].bytes};
  const std::uint64_t dice = rng_.below(100);
  if (dice >= 40) {
    action.kind = dice < 70   ? ActionKind::kPrefetch
                  : dice < 85 ? ActionKind::kPreEvictToHost
                              : ActionKind::kPreEvictToStorage;
    buffers_[*buffer].needs_prefetch &= action.kind != ActionKind::kPrefetch;
    return action;
  }
  if (in_use(*buffer)) {
    return std::nullopt;
  }
  if (dice < 15) {
    return free(*buffer);
  }
  action.kind = dice < 28 ? ActionKind::kDiscardEagerly : ActionKind::kDiscardLazily;
  buffers_[*buffer].needs_prefetch = action.kind == ActionKind::kDiscardLazily;
  return action;
}

ProgramAction RandomProgram::set_limits() {
  if (rng_.chance(0.5)) {
    return {.kind = ActionKind::kSetHost, .bytes = rng_.below(shape_.host_bytes_max + 1)};
  }
  const Bytes least = shape_.budget_bytes_max / 4;
  return {.kind = ActionKind::kSetBudget,
          .bytes = least + rng_.below(shape_.budget_bytes_max - least + 1)};
}

}  // namespace spillway::sim
