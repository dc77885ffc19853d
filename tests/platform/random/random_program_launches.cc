// Which launches a random program issues, on which streams, and what keeps them from racing. See
// random_program.h.
#include <algorithm>

#include "platform/random/random_program.h"

namespace spillway::sim {
namespace {

constexpr double kSameOrder = 0.85;  // that the next kernel is the one that came next last time
constexpr double kSameKernel = 0.9;  // that a kernel uses what it used last time
constexpr double kOwnStream = 0.7;   // that a kernel runs on the stream that it mostly runs on
constexpr double kNoStreamAtAll = 0.03;
constexpr double kUpdate = 0.3;

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

void RandomProgram::finished(std::uint64_t launch) {
  const auto found = in_flight_.find(launch);
  if (launch == launches_) {  // it may have been refused: it was never there
    for (Before& before : before_last_) {
      buffers_[before.buffer].blocks[before.block] = std::move(before.uses);
    }
    before_last_.clear();
  }
  touches_ -= found->second.touch ? 1U : 0U;
  for (const auto& [number, generation] : found->second.buffers) {
    Buffer& buffer = buffers_[number];
    if (buffer.live && buffer.generation == generation) {
      --(found->second.touch ? buffer.touches : buffer.launches);
    }
  }
  in_flight_.erase(found);
}

bool RandomProgram::races(const InFlightUse& earlier, StreamId stream) const {
  return in_flight_.contains(earlier.launch) && !order_.is_before(earlier.point, stream);
}

// A launch in flight that would race with this use on this stream.
std::optional<RandomProgram::InFlightUse> RandomProgram::race_of(const BufferUse& use,
                                                                 StreamId stream) const {
  for (std::uint32_t i = 0; i < use.block_count; ++i) {
    const BlockUses& uses = buffers_[use.buffer].blocks[use.first_block + i];
    if (races(uses.writer, stream)) {
      return uses.writer;
    }
    if (!writes(use.mode) && !uses.discarded) {
      continue;
    }
    for (const InFlightUse& reader : uses.readers) {
      if (races(reader, stream)) {
        return reader;
      }
    }
  }
  return std::nullopt;
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

RandomProgram::Kernel RandomProgram::make_kernel() {
  Kernel kernel;
  if (shape_.updates && rng_.chance(kUpdate)) {
    kernel.runs_at = Tier::kHost;
  }
  const std::uint64_t uses = 1 + rng_.below(6);
  Bytes bytes = 0;
  for (std::uint64_t i = 0; i < uses; ++i) {
    const std::optional<std::uint32_t> number = random_buffer();
    if (!number) {
      continue;
    }
    const Buffer& buffer = buffers_[*number];
    const auto blocks = static_cast<std::uint32_t>(buffer.blocks.size());
    BufferUse use{.buffer = *number, .block_count = blocks, .mode = random_mode(rng_)};
    if (rng_.chance(shape_.streams > 0 ? 0.5 : 0.3)) {
      use.first_block = static_cast<std::uint32_t>(rng_.below(blocks));
      use.block_count = 1 + static_cast<std::uint32_t>(rng_.below(blocks - use.first_block));
    }
    const bool twice = std::any_of(kernel.uses.begin(), kernel.uses.end(),
                                   [&](const BufferUse& other) { return overlap(use, other); });
    bytes += std::min<Bytes>(use.block_count * buffer.block_bytes, buffer.bytes);
    if (twice || bytes > shape_.launch_bytes_max) {
      continue;
    }
    kernel.uses.push_back(use);
    kernel.generations.push_back(buffer.generation);
  }
  return kernel;
}

// May be something else that must come before: a prefetch of an operand that was discarded lazily,
// or the recording of a signal that its stream then waits for.
std::optional<ProgramAction> RandomProgram::launch() {
  if (launches_in_flight() >= shape_.launches_in_flight_max) {
    return std::nullopt;
  }
  const auto number = static_cast<std::uint32_t>(
      rng_.chance(kSameOrder) ? next_kernel_ : rng_.below(kernels_.size()));
  if (!still_there(kernels_[number]) || !rng_.chance(kSameKernel)) {
    kernels_[number] = make_kernel();
  }
  const std::vector<BufferUse>& uses = kernels_[number].uses;
  if (uses.empty()) {
    return std::nullopt;
  }
  StreamId stream = kNoStream;
  if (shape_.streams > 0 && !rng_.chance(kNoStreamAtAll)) {
    stream = static_cast<StreamId>(rng_.chance(kOwnStream) ? number % shape_.streams
                                                           : rng_.below(shape_.streams));
  }
  for (const BufferUse& use : uses) {
    if (const std::optional<InFlightUse> earlier = race_of(use, stream)) {
      return order_behind(*earlier, stream);
    }
  }
  if (std::optional<ProgramAction> before = revive(uses)) {
    return before;
  }
  next_kernel_ = (number + 1) % static_cast<std::uint32_t>(kernels_.size());
  note(++launches_, stream, uses, false);
  return ProgramAction{.kind = ActionKind::kLaunch,
                       .launch = launches_,
                       .kernel = number,
                       .stream = stream,
                       .runs_at = kernels_[number].runs_at,
                       .duration_ns = static_cast<TimeNs>(
                           rng_.below(static_cast<std::uint64_t>(shape_.duration_ns_max) + 1)),
                       .uses = uses};
}

std::optional<ProgramAction> RandomProgram::touch() {
  const std::optional<std::uint32_t> number = random_buffer();
  if (!number || touches_ >= shape_.threads) {
    return std::nullopt;
  }
  BufferUse use{.buffer = *number, .block_count = 1};
  use.first_block = static_cast<std::uint32_t>(rng_.below(buffers_[*number].blocks.size()));
  use.mode = rng_.chance(0.5) ? AccessMode::kRead : AccessMode::kWrite;
  if (race_of(use, kNoStream)) {
    return std::nullopt;
  }
  if (std::optional<ProgramAction> before = revive({use})) {
    return before;
  }
  note(++launches_, kNoStream, {use}, true);
  return ProgramAction{.kind = ActionKind::kTouch, .launch = launches_, .uses = {use}};
}

// The stream waits for the other launch's, if it can.
std::optional<ProgramAction> RandomProgram::order_behind(const InFlightUse& earlier,
                                                         StreamId stream) {
  if (earlier.point.stream == kNoStream || stream == kNoStream || rng_.chance(0.3)) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> signal = order_.record_for(earlier.point.stream, stream);
  if (!signal) {
    return std::nullopt;
  }
  said_next_.push_back(wait({.signal = *signal, .stream = stream}));
  return ProgramAction{
      .kind = ActionKind::kRecord, .stream = earlier.point.stream, .signal = *signal};
}

// What must be said of an operand that was discarded lazily.
std::optional<ProgramAction> RandomProgram::revive(const std::vector<BufferUse>& uses) {
  for (const BufferUse& use : uses) {
    Buffer& buffer = buffers_[use.buffer];
    if (buffer.needs_prefetch) {
      buffer.needs_prefetch = false;
      const bool reuse = shape_.reuses && rng_.chance(0.5);
      return ProgramAction{.kind = reuse ? ActionKind::kReuse : ActionKind::kPrefetch,
                           .buffer = use.buffer,
                           .bytes = buffer.bytes};
    }
  }
  return std::nullopt;
}

std::optional<ProgramAction> RandomProgram::signal() {
  // Updates come behind what was issued before them, which must not wait for what comes later.
  if (shape_.updates || rng_.chance(0.5)) {
    return record_one();
  }
  const std::optional<ProgramOrder::Link> link = order_.random_wait(rng_);
  return link ? std::optional(wait(*link)) : std::nullopt;
}

std::optional<ProgramAction> RandomProgram::record_one() {
  const std::optional<ProgramOrder::Link> link = order_.record_one(rng_);
  if (!link) {
    return std::nullopt;
  }
  return ProgramAction{.kind = ActionKind::kRecord, .stream = link->stream, .signal = link->signal};
}

ProgramAction RandomProgram::wait(const ProgramOrder::Link& link) {
  order_.wait(link);
  return {.kind = ActionKind::kWait, .stream = link.stream, .signal = link.signal};
}

// It is issued: others mind it from now on.
void RandomProgram::note(std::uint64_t launch, StreamId stream, const std::vector<BufferUse>& uses,
                         bool touch) {
  const InFlightUse self{.launch = launch, .point = order_.issue(stream)};
  InFlight& made = in_flight_[launch];
  made.touch = touch;
  touches_ += touch ? 1U : 0U;
  before_last_.clear();
  for (const BufferUse& use : uses) {
    Buffer& buffer = buffers_[use.buffer];
    made.buffers.emplace_back(use.buffer, buffer.generation);
    ++(touch ? buffer.touches : buffer.launches);
    for (std::uint32_t block = use.first_block; block < use.first_block + use.block_count;
         ++block) {
      BlockUses& at = buffer.blocks[block];
      before_last_.push_back({.buffer = use.buffer, .block = block, .uses = at});
      if (writes(use.mode) || std::exchange(at.discarded, false)) {
        at.writer = self;
        at.readers.clear();
        at.discarded = false;
      } else {
        std::erase_if(at.readers, [&](const InFlightUse& reader) {
          return !in_flight_.contains(reader.launch);
        });
        at.readers.push_back(self);
      }
    }
  }
}

}  // namespace spillway::sim
