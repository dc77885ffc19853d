// See copy_lanes.h.
#include "platform/cuda/transfer/copy_lanes.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/service_thread.h"

namespace spillway::cuda {
namespace {

// What is given to the driver at once, and how many of those, so that the link never stands still.
constexpr Bytes kChunkBytes = 64 * kMiB;
constexpr std::size_t kChunks = 4;
// Out of the device: memory may be mapped at any time, and the call waits for what has been given.
constexpr Bytes kOutChunkBytes = 16 * kMiB;
constexpr std::size_t kOutChunks = 2;
// While it is being mapped: 48.5 GB/s, and the call takes 0.1 ms; with 16 MiB 51.6 and 0.24.
constexpr Bytes kShortChunkBytes = 8 * kMiB;
// Where nothing stands behind a copy in its direction its end is looked for all the time from so
// long before it is expected, because sleeping takes longer than it is asked to.
constexpr TimeNs kLookAheadNs = 40'000;
// For so long; what takes longer is looked for after sleeps.
constexpr TimeNs kLookNs = 80'000;
constexpr TimeNs kShortestCopySleepNs = 20'000;
constexpr TimeNs kLongestCopySleepNs = 200'000;
// A copy takes so long besides its bytes; how fast the link is, small ones do not tell.
constexpr TimeNs kBeginNs = 8'000;
constexpr Bytes kTellingBytes = 4 * kMiB;
// An end that was looked for so shortly before was seen in time.
constexpr TimeNs kSeenInTimeNs = 40'000;
// Of the time that a link could have carried something while its thread was late, as sleeps are.
constexpr TimeNs kMadeUpForNs = 1'000'000;

LinkDirection on_link(CopyLanes::Direction direction) {
  return direction == CopyLanes::Direction::kIn ? LinkDirection::kToDevice
                                                : LinkDirection::kFromDevice;
}

}  // namespace

CuResult CopyLanes::make() {
  int least = 0;
  int greatest = 0;
  CuContext context = nullptr;
  CuResult result = driver_->context_get_current(&context);
  if (result == CuResult::kSuccess) {
    result = driver_->context_stream_priorities(&least, &greatest);
  }
  for (Lane& lane : lanes_) {
    if (result == CuResult::kSuccess) {
      result = driver_->stream_create(&lane.stream, kCuStreamNonBlocking, greatest);
    }
  }
  if (result == CuResult::kSuccess) {
    thread_ = service_thread("spw-copies", [this, context] { run(context); });
  }
  return result;
}

void CopyLanes::stop() {
  stop_ = true;
  added_.call();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void CopyLanes::give_back() {
  stop();
  for (const CuEvent event : events_) {
    (void)driver_->event_destroy(event);
  }
  events_.clear();
  for (Lane& lane : lanes_) {
    if (lane.stream != nullptr) {
      (void)driver_->stream_destroy(lane.stream);
      lane.stream = nullptr;
    }
  }
}

TimeNs CopyLanes::processor_ns() const { return spillway::processor_ns(thread_); }

// --- The driver thread's ------------------------------------------------------------------------

void CopyLanes::add(Direction direction, std::uint64_t tag, std::vector<BlockCopy> copies) {
  const auto at = static_cast<std::size_t>(direction);
  ++not_polled_;
  ++not_ended_[at];
  {
    const MutexLock lock(mutex_);
    lanes_[at].added.push_back({.tag = tag, .copies = std::move(copies), .added_ns = now_ns()});
  }
  added_.call();
}

CuResult CopyLanes::poll(std::vector<Ended>& ended) {
  const MutexLock lock(mutex_);
  not_polled_ -= ended_.size();
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
  return lost_;
}

// --- Its own thread's ---------------------------------------------------------------------------

void CopyLanes::run(CuContext context) {
  WakeUp::make_sleeps_precise();
  stay_out_of_captures(*driver_);
  CuResult result = driver_->context_set_current(context);
  while (!stop_ && result == CuResult::kSuccess) {
    take_added();
    for (const Direction direction : {Direction::kOut, Direction::kIn}) {
      result = result == CuResult::kSuccess ? look(direction) : result;
    }
    if (result == CuResult::kSuccess) {
      wait();
    }
  }
  if (result != CuResult::kSuccess) {
    {
      const MutexLock lock(mutex_);
      lost_ = result;
    }
    wake_();
  }
}

void CopyLanes::take_added() {
  const MutexLock lock(mutex_);
  for (Lane& lane : lanes_) {
    std::move(lane.added.begin(), lane.added.end(), std::back_inserter(lane.batches));
    lane.added.clear();
  }
}

CuResult CopyLanes::look(Direction direction) {
  Lane& lane = lanes_[static_cast<std::size_t>(direction)];
  if (const CuResult result = end_chunks(lane, direction); result != CuResult::kSuccess) {
    return result;
  }
  const bool out = direction == Direction::kOut;
  // On a slow link one is under way until that has carried it: so the next is held back.
  const bool is_short = (out && out_short_) || holds_back();
  const ChunkLimits limits{.bytes = is_short ? kShortChunkBytes
                                    : out    ? kOutChunkBytes
                                             : kChunkBytes,
                           .copies = is_short ? 1 : std::numeric_limits<std::size_t>::max()};
  const std::size_t most = is_short ? 1 : out ? kOutChunks : kChunks;
  while (lane.under_way.size() < most && lane.given < lane.batches.size()) {
    if (const CuResult result = give(lane, direction, limits); result != CuResult::kSuccess) {
      return result;
    }
  }
  return CuResult::kSuccess;
}

CuResult CopyLanes::end_chunks(Lane& lane, Direction direction) {
  Bytes ended_bytes = 0;
  std::size_t ended = 0;
  CuResult result = CuResult::kSuccess;
  const TimeNs since_ns = lane.under_way.empty() ? 0 : lane.under_way.front().since_ns;
  const TimeNs looked_at_ns = now_ns();
  while (ended < lane.under_way.size() && lane.under_way[ended].due_ns <= looked_at_ns) {
    result = driver_->event_query(lane.under_way[ended].event);
    if (result != CuResult::kSuccess) {
      break;
    }
    ended_bytes += lane.under_way[ended++].bytes;
  }
  const TimeNs at_ns = now_ns();
  TimeNs begin_ns = since_ns;
  for (Bytes left_bytes = ended_bytes; ended > 0; --ended) {
    const Chunk chunk = lane.under_way.front();
    lane.under_way.pop_front();
    events_.push_back(chunk.event);
    begin_ns = std::max(begin_ns, chunk.since_ns);
    Batch& batch = lane.batches.front();
    batch.copied_bytes += chunk.bytes;
    batch.begun_ns = batch.begun_ns == 0 ? begin_ns : batch.begun_ns;
    // Of what ended since the last look each took its part of the time.
    begin_ns = chunk.bytes == left_bytes
                   ? at_ns
                   : begin_ns + static_cast<TimeNs>(static_cast<double>(at_ns - begin_ns) *
                                                    static_cast<double>(chunk.bytes) /
                                                    static_cast<double>(left_bytes));
    left_bytes -= chunk.bytes;
    if (chunk.last) {
      end_batch(lane, direction, begin_ns);
    }
  }
  if (ended_bytes > 0 && !holds_back()) {
    learn(lane, ended_bytes, at_ns, at_ns - since_ns);
  }
  // It stood behind those; behind what was refused, it has stood there since that did.
  if (!lane.under_way.empty()) {
    TimeNs& next_ns = lane.under_way.front().since_ns;
    next_ns = std::max(next_ns, ended_bytes > 0 ? at_ns : since_ns);
  }
  lane.looked_ns = at_ns;
  return result == CuResult::kNotReady ? CuResult::kSuccess : result;
}

void CopyLanes::end_batch(Lane& lane, Direction direction, TimeNs at_ns) {
  const Batch& batch = lane.batches.front();
  const Ended ended{
      .tag = batch.tag, .failed = batch.failed, .begun_ns = batch.begun_ns, .ended_ns = at_ns};
  copied_bytes_ += batch.failed ? 0 : batch.copied_bytes;
  lane.batches.pop_front();
  --lane.given;
  --not_ended_[static_cast<std::size_t>(direction)];
  {
    const MutexLock lock(mutex_);
    ended_.push_back(ended);
  }
  wake_();
}

// An end that was seen late says only that the link is at least so fast.
void CopyLanes::learn(Lane& lane, Bytes bytes, TimeNs at_ns, TimeNs took_ns) {
  if (bytes < kTellingBytes || took_ns <= kBeginNs) {
    return;
  }
  constexpr double kWeight = 0.25;  // of the newest
  const double seen = static_cast<double>(bytes) / static_cast<double>(took_ns - kBeginNs);
  if (seen > lane.bytes_per_ns || at_ns - lane.looked_ns <= kSeenInTimeNs) {
    lane.bytes_per_ns += kWeight * (seen - lane.bytes_per_ns);
  }
}

// As much of the next batch as may be under way at once, with an event behind it. What the driver
// refuses fails alone, behind the parts that it has taken.
CuResult CopyLanes::give(Lane& lane, Direction direction, const ChunkLimits& limits) {
  Batch& batch = lane.batches[lane.given];
  Chunk chunk;
  for (std::size_t copies = 0; !batch.failed && copies < limits.copies &&
                               chunk.bytes < limits.bytes && batch.copy < batch.copies.size();
       ++copies) {
    const BlockCopy& block = batch.copies[batch.copy];
    assert(!block.pieces.empty());
    const BlockCopy::Piece& piece = block.pieces[batch.piece];
    const Bytes bytes = std::min(piece.bytes - batch.done_bytes, limits.bytes - chunk.bytes);
    const CuAddress device = block.device + batch.device_bytes;
    char* const host = piece.host + batch.done_bytes;
    const CuResult result = direction == Direction::kIn
                                ? driver_->copy_in(device, host, bytes, lane.stream)
                                : driver_->copy_out(host, device, bytes, lane.stream);
    batch.failed = result != CuResult::kSuccess;
    chunk.bytes += batch.failed ? 0 : bytes;
    batch.device_bytes += bytes;
    batch.done_bytes += bytes;
    if (batch.done_bytes == piece.bytes) {
      ++batch.piece;
      batch.done_bytes = 0;
    }
    if (batch.piece == block.pieces.size()) {
      ++batch.copy;
      batch.piece = 0;
      batch.device_bytes = 0;
    }
  }
  chunk.last = batch.failed || batch.copy == batch.copies.size();
  lane.given += chunk.last ? 1 : 0;
  CuResult result = take_event(chunk.event);
  if (result == CuResult::kSuccess) {
    result = driver_->event_record(chunk.event, lane.stream);
  }
  chunk.since_ns = now_ns();
  if (holds_back() && chunk.bytes > 0) {
    chunk.due_ns = link_.book(on_link(direction), chunk.bytes,
                              std::max(batch.added_ns, chunk.since_ns - kMadeUpForNs));
  }
  lane.under_way.push_back(chunk);
  return result;
}

CuResult CopyLanes::take_event(CuEvent& event) {
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
    return CuResult::kSuccess;
  }
  return driver_->event_create(&event, kCuEventDisableTiming);
}

// Until something has been added, or the first end is near.
void CopyLanes::wait() {
  const TimeNs at_ns = now_ns();
  TimeNs sleep_ns = WakeUp::kForLongNs;
  for (const Lane& lane : lanes_) {
    if (lane.under_way.empty()) {
      continue;
    }
    const Chunk& first = lane.under_way.front();
    const TimeNs expected_ns =
        kBeginNs + static_cast<TimeNs>(static_cast<double>(first.bytes) / lane.bytes_per_ns);
    const TimeNs left_ns = std::max(first.since_ns + expected_ns, first.due_ns) - at_ns;
    // Where another stands behind it nobody has to be quick.
    if (lane.under_way.size() == 1 && left_ns <= kLookAheadNs &&
        left_ns >= kLookAheadNs - kLookNs) {
      std::this_thread::yield();
      return;
    }
    // What is late is looked for less and less often.
    const TimeNs until_ns = left_ns > kLookAheadNs ? left_ns - kLookAheadNs : -left_ns / 4;
    sleep_ns = std::min(sleep_ns, std::clamp(until_ns, kShortestCopySleepNs, kLongestCopySleepNs));
  }
  added_.wait_for(sleep_ns);
}

}  // namespace spillway::cuda
