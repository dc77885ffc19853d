// See update_balance.h.
#include "policy/updates/update_balance.h"

#include <algorithm>
#include <cmath>

#include "engine/memory/for_each_block.h"

namespace spillway {
namespace {

// A measurement of so many bytes weighs as much as all before it, ...
constexpr double kHalfBytes = 256.0 * kMiB;
// ... which in the long run together weigh as much as so many.
const double kAllBytes = kHalfBytes / std::log(2.0);
// Fewer say more about latency than about a rate.
constexpr double kLeastBytes = 1.0 * kMiB;
// In which what the link did otherwise counts half.
constexpr double kOtherHalfNs = 50e6;
// However busy the link is otherwise, it gives updates a part.
constexpr double kLeastPart = 1.0 / 8;
// What has not moved by then stays where it is.
constexpr TimeNs kLongestPromiseNs = 4 * kNsPerS;

double seconds(Bytes queued, Bytes more, double bytes_per_s) {
  return more == 0 ? 0 : static_cast<double>(queued + more) / bytes_per_s;
}

// Of each side what it ends last; and all of it, which decides between equals.
struct End {
  double last_s = 0;
  double sum_s = 0;

  void add(double end_s) {
    last_s = std::max(last_s, end_s);
    sum_s += end_s;
  }
  [[nodiscard]] bool before(const End& other) const {
    return last_s != other.last_s ? last_s < other.last_s : sum_s < other.sum_s;
  }
};

// `on_device(id, block)`: whether the update finds the block there.
template <typename OnDevice>
UpdateWorks works_of(const Launch& update, const Space& space, const OnDevice& on_device) {
  UpdateWorks works;
  for_each_block(update, [&](BlockId id, const Access& access) {
    const Block& block = space.block(id);
    const bool written = writes(access.mode);
    works.at_host.host_bytes += (written ? 2 : 1) * Bytes{block.bytes};
    if (block.contents != Contents::kLive) {
      // What is only read will have been written by then, on the device: a gradient.
      works.at_host.down_bytes += written ? 0 : block.bytes;
    } else if (!on_device(id, block)) {
      works.on_device.up_bytes += block.bytes;
      works.on_device.down_bytes += written ? block.bytes : 0;
    } else {
      works.at_host.down_bytes += safe_below(block) ? 0 : block.bytes;
      works.at_host.up_bytes += written ? block.bytes : 0;
    }
  });
  return works;
}

bool is_there(BlockId /*id*/, const Block& block) { return block.copies.has(Tier::kDevice); }

}  // namespace

UpdateWorks works_of(const Launch& update, const Space& space) {
  return works_of(update, space, is_there);
}

// --- Rates --------------------------------------------------------------------------------------

UpdateBalance::Rate::Rate(double start) {
  if (start > 0) {
    bytes_ = kAllBytes;
    busy_s_ = kAllBytes / start;
  }
}

void UpdateBalance::Rate::measured(Bytes bytes, TimeNs busy_ns) {
  if (bytes == 0) {
    return;
  }
  const double kept = std::exp2(-static_cast<double>(bytes) / kHalfBytes);
  const double more = kAllBytes * (1 - kept);
  bytes_ = bytes_ * kept + more;
  busy_s_ =
      busy_s_ * kept + static_cast<double>(busy_ns) * 1e-9 * more / static_cast<double>(bytes);
}

double UpdateBalance::Rate::bytes_per_s() const {
  return bytes_ >= kLeastBytes && busy_s_ > 0 ? bytes_ / busy_s_ : 0;
}

double UpdateBalance::Lane::bytes_per_s(TimeNs now_ns) const {
  const double all = rate.bytes_per_s();
  const double age = static_cast<double>(now_ns - other_ns) / kOtherHalfNs;
  const double other = other_bytes * std::exp2(-age) * std::log(2.0) / (kOtherHalfNs * 1e-9);
  return std::max(all - other, all * kLeastPart);
}

UpdateRates UpdateBalance::rates() const {
  return {
      .up = up_.rate.bytes_per_s(), .down = down_.rate.bytes_per_s(), .host = host_.bytes_per_s()};
}

// --- What is queued -----------------------------------------------------------------------------

void UpdateBalance::Lane::promise(BlockId block, Bytes bytes, TimeNs now_ns) {
  (void)take_back(block);  // small allocations share it
  promised[block] = {.bytes = bytes, .number = ++last_number};
  ages.push_back({.since_ns = now_ns, .number = last_number, .block = block});
  promised_bytes += bytes;
}

// How many bytes were promised of the block.
Bytes UpdateBalance::Lane::take_back(BlockId block) {
  const auto found = promised.find(block);
  if (found == promised.end()) {
    return 0;
  }
  const Bytes bytes = found->second.bytes;
  promised_bytes -= bytes;
  promised.erase(found);
  return bytes;
}

void UpdateBalance::Lane::forget_old(TimeNs now_ns) {
  while (!ages.empty()) {
    const Age& oldest = ages.front();
    const auto found = promised.find(oldest.block);
    const bool stands = found != promised.end() && found->second.number == oldest.number;
    if (stands && now_ns - oldest.since_ns <= kLongestPromiseNs) {
      return;
    }
    if (stands) {
      (void)take_back(oldest.block);
    }
    ages.pop_front();
  }
}

UpdateWork UpdateBalance::queued() const {
  return {.up_bytes = up_.promised_bytes,
          .down_bytes = down_.promised_bytes,
          .host_bytes = host_queued_bytes_};
}

// --- Placing ------------------------------------------------------------------------------------

UpdateBalance::UpdateBalance(Device device, const UpdateRates& start)
    : device_(device), up_(start.up), down_(start.down), host_(start.host) {}

UpdateBalance::Placement UpdateBalance::place(const Launch& update, const Space& space,
                                              TimeNs now_ns) {
  for (Lane* const lane : {&up_, &down_}) {
    lane->forget_old(now_ns);
    // What was expected of its blocks before has come, or will not.
    for_each_block(update, [&](BlockId id, const Access& /*access*/) { lane->take_back(id); });
  }
  const UpdateWorks works =
      works_of(update, space, [this](BlockId id, const Block& block) { return stays(id, block); });
  const UpdateRates known = rates();
  const bool measured = known.up > 0 && known.down > 0 && known.host > 0;
  bool at_host = measured ? at_host_is_faster(works, now_ns) : moves_less_at_host(works);
  const auto written = std::find_if(update.accesses.begin(), update.accesses.end(),
                                    [](const Access& access) { return writes(access.mode); });
  if (device_ == Device::kOwnMemory && written != update.accesses.end()) {
    at_host = share_.at_host(*written, works.at_host.host_bytes, now_ns, at_host);
  }
  book(update, space, at_host, now_ns);
  if (!at_host) {
    return {};
  }
  host_queued_bytes_ += works.at_host.host_bytes;
  return {.runs_at = Tier::kHost, .host_bytes = works.at_host.host_bytes};
}

// Where the same cores compute on both sides, they end the update at the same time on both, and
// what has to move decides.
bool UpdateBalance::at_host_is_faster(const UpdateWorks& works, TimeNs now_ns) const {
  const double up = up_.bytes_per_s(now_ns);
  const double down = down_.bytes_per_s(now_ns);
  const double computed_s =
      seconds(host_queued_bytes_, works.at_host.host_bytes, host_.bytes_per_s());
  const auto end_of = [&](const UpdateWork& work, bool by_cores) {
    End end;
    end.add(seconds(up_.promised_bytes, work.up_bytes, up));
    end.add(seconds(down_.promised_bytes, work.down_bytes, down));
    end.add(by_cores ? computed_s : 0);
    return end;
  };
  return end_of(works.at_host, true)
      .before(end_of(works.on_device, device_ == Device::kHostMemory));
}

void UpdateBalance::book(const Launch& update, const Space& space, bool at_host, TimeNs now_ns) {
  for_each_block(update, [&](BlockId id, const Access& access) {
    const Block& block = space.block(id);
    const bool there = stays(id, block);
    came_[id] = false;
    if (block.contents != Contents::kLive || there != at_host) {
      return;
    }
    if (!at_host || writes(access.mode)) {
      up_.promise(id, block.bytes, now_ns);
    }
    if (at_host ? !safe_below(block) : writes(access.mode)) {
      down_.promise(id, block.bytes, now_ns);
    }
  });
}

// --- Events -------------------------------------------------------------------------------------

void UpdateBalance::update_ended(Bytes host_bytes, TimeNs busy_ns) {
  host_queued_bytes_ -= std::min(host_queued_bytes_, host_bytes);
  host_.measured(host_bytes, busy_ns);
}

void UpdateBalance::withdrawn(const Launch& update, Bytes host_bytes) {
  host_queued_bytes_ -= std::min(host_queued_bytes_, host_bytes);
  for_each_block(update, [&](BlockId id, const Access& /*access*/) {
    (void)up_.take_back(id);
    (void)down_.take_back(id);
  });
}

// It may be there when the update is placed, long before that runs, and leave meanwhile: as it did
// if it has had to come since the update before.
bool UpdateBalance::stays(BlockId id, const Block& block) const {
  const auto found = came_.find(id);
  return is_there(id, block) && (found == came_.end() || !found->second);
}

UpdateBalance::Lane* UpdateBalance::lane_of(const Transfer& transfer) {
  if (transfer.to == Tier::kDevice) {
    return &up_;
  }
  return transfer.from == Tier::kDevice ? &down_ : nullptr;
}

void UpdateBalance::transfer_began(const Transfer& transfer, TimeNs now_ns) {
  Lane* const lane = lane_of(transfer);
  if (lane != nullptr && lane->in_flight++ == 0) {
    lane->busy_since_ns = now_ns;
  }
}

// Transfers follow each other, so the time since the last one ended is this one's. Of those from
// and to storage the drive decides, and says nothing of the link.
void UpdateBalance::transfer_ended(const Transfer& transfer, TimeNs now_ns, bool moved) {
  Lane* const lane = lane_of(transfer);
  if (lane == nullptr || lane->in_flight == 0) {
    return;
  }
  --lane->in_flight;
  const TimeNs busy_ns = now_ns - lane->busy_since_ns;
  lane->busy_since_ns = now_ns;
  if (!moved) {
    return;
  }
  const bool over_storage = transfer.from == Tier::kStorage || transfer.to == Tier::kStorage;
  if (!over_storage) {
    lane->rate.measured(transfer.bytes, busy_ns);
  }
  Bytes promised_bytes = 0;
  for (const BlockId id : transfer.blocks) {
    promised_bytes += lane->take_back(id);
    if (const auto found = came_.find(id); found != came_.end()) {
      found->second |= transfer.to == Tier::kDevice;
    }
  }
  const double age = static_cast<double>(now_ns - lane->other_ns) / kOtherHalfNs;
  lane->other_bytes =
      lane->other_bytes * std::exp2(-age) +
      static_cast<double>(transfer.bytes - std::min(transfer.bytes, promised_bytes));
  lane->other_ns = now_ns;
}

}  // namespace spillway
