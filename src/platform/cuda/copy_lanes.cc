// See copy_lanes.h.
#include "platform/cuda/copy_lanes.h"

#include <utility>

namespace spillway::cuda {
namespace {

// Batches of a lane that have been given to the driver: the next one is set up while one moves.
constexpr std::size_t kUnderWay = 4;

}  // namespace

CuResult CopyLanes::make() {
  int least = 0;
  int greatest = 0;
  CuResult result = driver_->context_stream_priorities(&least, &greatest);
  for (Lane& lane : lanes_) {
    if (result == CuResult::kSuccess) {
      result = driver_->stream_create(&lane.stream, kCuStreamNonBlocking, greatest);
    }
  }
  return result;
}

void CopyLanes::give_back() {
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

void CopyLanes::add(Direction direction, std::uint64_t tag, std::vector<BlockCopy> copies) {
  lanes_[static_cast<std::size_t>(direction)].waiting.push_back(
      {.tag = tag, .copies = std::move(copies)});
}

bool CopyLanes::idle() const {
  for (const Lane& lane : lanes_) {
    if (!lane.under_way.empty() || !lane.waiting.empty()) {
      return false;
    }
  }
  return true;
}

CuResult CopyLanes::poll(std::vector<Ended>& ended) {
  if (lost_ == CuResult::kSuccess) {
    lost_ = look(ended);
  }
  return lost_;
}

CuResult CopyLanes::look(std::vector<Ended>& ended) {
  for (const Direction direction : {Direction::kIn, Direction::kOut}) {
    Lane& lane = lanes_[static_cast<std::size_t>(direction)];
    while (!lane.under_way.empty()) {
      Batch& first = lane.under_way.front();
      const CuResult result = driver_->event_query(first.event);
      if (result == CuResult::kNotReady) {
        break;
      }
      if (result != CuResult::kSuccess) {
        return result;
      }
      for (const BlockCopy& copy : first.copies) {
        for (const BlockCopy::Piece& piece : copy.pieces) {
          copied_bytes_ += first.failed ? 0 : piece.bytes;
        }
      }
      events_.push_back(first.event);
      ended.push_back({.tag = first.tag, .failed = first.failed});
      lane.under_way.pop_front();
    }
    const std::size_t most = direction == Direction::kOut && out_short_ ? 1 : kUnderWay;
    while (!lane.waiting.empty() && lane.under_way.size() < most) {
      Batch batch = std::move(lane.waiting.front());
      lane.waiting.pop_front();
      if (const CuResult result = submit(lane, direction, std::move(batch));
          result != CuResult::kSuccess) {
        return result;
      }
    }
  }
  return CuResult::kSuccess;
}

// What the driver refuses fails alone, behind the parts that it has taken.
CuResult CopyLanes::submit(Lane& lane, Direction direction, Batch batch) {
  for (const BlockCopy& copy : batch.copies) {
    CuAddress device = copy.device;
    for (const BlockCopy::Piece& piece : copy.pieces) {
      const CuResult result = direction == Direction::kIn
                                  ? driver_->copy_in(device, piece.host, piece.bytes, lane.stream)
                                  : driver_->copy_out(piece.host, device, piece.bytes, lane.stream);
      batch.failed |= result != CuResult::kSuccess;
      device += piece.bytes;
    }
  }
  CuResult result = take_event(batch.event);
  if (result == CuResult::kSuccess) {
    result = driver_->event_record(batch.event, lane.stream);
  }
  lane.under_way.push_back(std::move(batch));
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

}  // namespace spillway::cuda
