// Dice that keep to the rules of a program. See random_program.h.
#include "platform/random/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace spillway::sim {
namespace {

constexpr std::uint64_t kBlocksMost = 24;  // of a buffer whose blocks are of its own size

constexpr std::array kActionNames{"allocate",
                                  "free",
                                  "discard eagerly",
                                  "discard lazily",
                                  "prefetch",
                                  "pre_evict to host",
                                  "pre_evict to storage",
                                  "launch",
                                  "set budget",
                                  "set host",
                                  "reuse",
                                  "record",
                                  "wait",
                                  "touch"};

}  // namespace

std::string describe(const ProgramAction& action) {
  const std::string_view name = kActionNames[static_cast<std::size_t>(action.kind)];
  if (action.kind == ActionKind::kSetBudget || action.kind == ActionKind::kSetHost) {
    return fmt::format("{} {}", name, action.bytes);
  }
  if (action.kind == ActionKind::kRecord || action.kind == ActionKind::kWait) {
    return fmt::format("{} signal {} on stream {}", name, action.signal, action.stream);
  }
  if (action.kind == ActionKind::kAllocate) {
    return fmt::format("{} buffer {} ({} bytes in blocks of {})", name, action.buffer, action.bytes,
                       action.block_bytes);
  }
  if (action.kind != ActionKind::kLaunch && action.kind != ActionKind::kTouch) {
    return fmt::format("{} buffer {} ({} bytes)", name, action.buffer, action.bytes);
  }
  std::string text = fmt::format("{} {} kernel {}", name, action.launch, action.kernel);
  if (action.runs_at == Tier::kHost) {
    text += " at the host";
  }
  if (action.stream != kNoStream) {
    text += fmt::format(" on stream {}", action.stream);
  }
  for (const BufferUse& use : action.uses) {
    constexpr std::array kModes{"reads", "writes", "updates", "overwrites"};
    text += fmt::format(", {} {}[{}+{}]", kModes[static_cast<std::size_t>(use.mode)], use.buffer,
                        use.first_block, use.block_count);
  }
  return text;
}

RandomProgram::RandomProgram(const ProgramShape& shape, std::uint64_t seed)
    : shape_(shape),
      rng_(seed),
      order_(shape.streams),
      buffers_(shape.buffers_max),
      kernels_(shape.kernels) {}

ProgramAction RandomProgram::next() {
  before_last_.clear();
  if (!said_next_.empty()) {
    ProgramAction action = std::move(said_next_.front());
    said_next_.pop_front();
    return action;
  }
  while (true) {
    const std::uint64_t dice = rng_.below(100);
    std::optional<ProgramAction> action;
    if (dice < 15) {
      action = allocate();
    } else if (dice < 65) {
      action = shape_.threads > 0 && dice < 35 ? touch() : launch();
    } else if (dice < 97) {
      action = shape_.streams > 0 && dice < 70 ? signal() : change();
    } else {
      action = set_limits();
    }
    if (action) {
      return *action;
    }
  }
}

std::optional<ProgramAction> RandomProgram::free_one() {
  for (std::uint32_t buffer = 0; buffer < buffers_.size(); ++buffer) {
    const Buffer& one = buffers_[buffer];
    if (one.live && one.launches == 0 && one.touches == 0) {
      return free(buffer);
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> RandomProgram::random_buffer() {
  const auto buffer = static_cast<std::uint32_t>(rng_.below(buffers_.size()));
  return buffers_[buffer].live ? std::optional(buffer) : std::nullopt;
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
  const Bytes block_bytes = shape_.block_bytes_max > 0 ? random_block_bytes(bytes) : kBlockBytes;
  buffers_[buffer] = {.bytes = bytes,
                      .block_bytes = block_bytes,
                      .live = true,
                      .generation = ++generations_,
                      .blocks = {}};
  buffers_[buffer].blocks.resize((bytes + block_bytes - 1) / block_bytes);
  live_bytes_ += bytes;
  return ProgramAction{
      .kind = ActionKind::kAllocate, .buffer = buffer, .bytes = bytes, .block_bytes = block_bytes};
}

// Anything from what cuts the buffer into many blocks to what is larger than it.
Bytes RandomProgram::random_block_bytes(Bytes bytes) {
  const Bytes least = round_up(std::max<Bytes>(bytes / kBlocksMost, 1), shape_.frame_bytes);
  Bytes chosen = least;
  while (chosen < shape_.block_bytes_max && rng_.chance(0.6)) {
    chosen += rng_.chance(0.5) ? chosen : rng_.below(8) * shape_.frame_bytes;
  }
  return std::min(chosen, std::max(least, shape_.block_bytes_max));
}

ProgramAction RandomProgram::free(std::uint32_t buffer) {
  buffers_[buffer].live = false;
  live_bytes_ -= buffers_[buffer].bytes;
  return {.kind = ActionKind::kFree, .buffer = buffer, .bytes = buffers_[buffer].bytes};
}

// Something that happens to one buffer.
std::optional<ProgramAction> RandomProgram::change() {
  const std::optional<std::uint32_t> number = random_buffer();
  if (!number) {
    return std::nullopt;
  }
  Buffer& buffer = buffers_[*number];
  ProgramAction action{.buffer = *number, .bytes = buffer.bytes};
  const std::uint64_t dice = rng_.below(100);
  if (dice >= 40) {
    action.kind = dice < 70   ? ActionKind::kPrefetch
                  : dice < 85 ? ActionKind::kPreEvictToHost
                              : ActionKind::kPreEvictToStorage;
    buffer.needs_prefetch &= action.kind != ActionKind::kPrefetch;
    return action;
  }
  if (buffer.touches > 0 || (buffer.launches > 0 && !shape_.deaths_in_flight)) {
    return std::nullopt;
  }
  if (dice < 15) {
    return free(*number);
  }
  action.kind = dice < 28 ? ActionKind::kDiscardEagerly : ActionKind::kDiscardLazily;
  buffer.needs_prefetch = action.kind == ActionKind::kDiscardLazily;
  for (BlockUses& uses : buffer.blocks) {
    uses.discarded = true;
  }
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
