// See moves.h.
#include "platform/cuda/transfer/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "platform/common/process/clock.h"

namespace spillway::cuda {
namespace {

// Enough that the disk, the link and the next block are busy at once.
constexpr std::size_t kSlots = 4;
// For what direct storage refuses, and where memory is short.
constexpr std::size_t kFewestSlots = 1;
// In a row, and direct storage is not tried any more: it costs time and does nothing.
constexpr unsigned kMostRefusals = 8;

}  // namespace

Moves::Moves(const Driver& driver, StorageIo* storage, Bytes largest_block_bytes,
             const LinkSpeed& link, Failures& failures, std::function<void()> wake)
    : driver_(&driver),
      storage_(storage),
      slot_bytes_(largest_block_bytes),
      failures_(&failures),
      wake_(std::move(wake)),
      lanes_(driver, wake_, link) {
  if (storage != nullptr) {
    io_ = std::make_unique<IoThread>(*storage);
  }
}

CuResult Moves::make(const DirectStorage::Options& direct,
                     const std::function<Bytes()>& spare_bytes) {
  if (storage_ != nullptr) {
    if (!lanes_.holds_back()) {  // which what goes past host memory cannot be
      auto made = DirectStorage::make(*driver_, *storage_, direct);
      if (made) {
        direct_ = std::move(*made);
      } else if (direct.warn && cufile_needs(direct.place).word) {
        direct.warn(
            fmt::format("direct storage is off: {}; between device and storage data goes "
                        "through host memory",
                        made.error().message));
      }
    }
    tries_direct_ = direct_ != nullptr;
    const bool is_short = spare_bytes && spare_bytes() < kSlots * slot_bytes_;
    if (const CuResult result = add_slots(direct_ || is_short ? kFewestSlots : kSlots);
        result != CuResult::kSuccess) {
      return result;
    }
  }
  return lanes_.make();
}

CuResult Moves::add_slots(std::size_t count) {
  void* memory = nullptr;
  const CuResult result = driver_->host_alloc(&memory, count * slot_bytes_, kCuHostAllocPortable);
  if (result == CuResult::kSuccess) {
    staging_.push_back(memory);
    for (std::size_t i = 0; i < count; ++i) {
      slots_.push_back(static_cast<char*>(memory) + i * slot_bytes_);
    }
  }
  return result;
}

void Moves::give_back() {
  // After an error something may be under way after all; what is with the swap file comes back.
  const auto with_file = [this] {
    const MutexLock lock(io_mutex_);
    return std::any_of(moves_.begin(), moves_.end(),
                       [](const auto& it) { return it.second.requests_left > 0; });
  };
  while (with_file()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  lanes_.give_back();
  for (; !staging_.empty(); staging_.pop_back()) {
    (void)driver_->host_free(staging_.back());
  }
}

void Moves::start(Move move) {
  const std::uint64_t id = move.id;
  UnderWay& it = moves_[id];
  it.move = std::move(move);
  if (it.move.error != 0) {
    failed_at_once_.push_back(id);
  } else if (staged(it.move) && tries_direct_) {
    move_directly(it);
  } else if (staged(it.move)) {
    waiting_.push_back(id);
  } else {
    begin(it);
  }
}

void Moves::begin(UnderWay& it) {
  const bool file_first = it.move.from == Tier::kStorage ||
                          (it.move.from == Tier::kHost && it.move.to == Tier::kStorage);
  if (file_first) {
    it.begun_ns = now_ns();
    read_or_write(it);
  } else {
    copy(it);
  }
}

void Moves::copy(const UnderWay& it) {
  std::vector<BlockCopy> copies;
  for (const Move::Part& part : it.move.parts) {
    copies.push_back({.device = part.address, .pieces = part.host});
    if (it.staging != nullptr) {
      copies.back().pieces = {{.host = it.staging, .bytes = part.bytes}};
    }
  }
  lanes_.add(it.move.to == Tier::kDevice ? CopyLanes::Direction::kIn : CopyLanes::Direction::kOut,
             it.move.id, std::move(copies));
}

// Runs of the swap file against pieces of memory, cut where either ends.
void Moves::read_or_write(UnderWay& it) {
  const Move::Part& part = it.move.parts.front();
  std::vector<BlockCopy::Piece> memory = part.host;
  if (it.staging != nullptr) {
    memory = {{.host = it.staging, .bytes = part.bytes}};
  }
  std::vector<IoRequest> requests;
  const bool write = it.move.to == Tier::kStorage;
  std::size_t piece = 0;
  Bytes used_bytes = 0;  // of the piece
  for (const Run& run : part.storage) {
    for (Bytes done = 0; done < run.bytes;) {
      const Bytes bytes = std::min(run.bytes - done, memory[piece].bytes - used_bytes);
      requests.push_back({.write = write,
                          .memory = memory[piece].host + used_bytes,
                          .bytes = bytes,
                          .offset = run.at + done,
                          .done = {}});
      done += bytes;
      used_bytes += bytes;
      if (used_bytes == memory[piece].bytes) {
        ++piece;
        used_bytes = 0;
      }
    }
  }
  it.error = 0;
  it.requests_left = requests.size();
  for (IoRequest& request : requests) {
    request.done = [this, &it, write, bytes = request.bytes, offset = request.offset](int error) {
      if (error != 0) {
        failures_->note_cause(storage_->error_text(write, bytes, offset, error));
      }
      io_ended(it, error);
    };
    io_->submit(std::move(request));
  }
}

void Moves::move_directly(UnderWay& it) {
  const Move::Part& part = it.move.parts.front();
  it.direct = true;
  it.begun_ns = now_ns();
  it.requests_left = 1;
  direct_->start({.write = it.move.to == Tier::kStorage,
                  .address = part.address,
                  .storage = part.storage,
                  .done = [this, &it](bool moved) {
                    it.refused = !moved;
                    io_ended(it, 0);
                  }});
}

// What was refused is staged. A disk that has broken is met there again, and told of.
void Moves::direct_ended(std::uint64_t id, UnderWay& it, std::vector<MoveEnded>& ended) {
  it.direct = false;
  if (!it.refused) {
    refused_in_a_row_ = 0;
    end(id, 0, now_ns(), ended);
    return;
  }
  it.begun_ns = 0;  // it begins anew
  waiting_.push_back(id);
  if (++refused_in_a_row_ >= kMostRefusals && std::exchange(tries_direct_, false)) {
    (void)add_slots(kSlots - kFewestSlots);  // without them it is slower
  }
}

void Moves::io_ended(UnderWay& it, int error) {
  {
    const MutexLock lock(io_mutex_);
    it.error = error != 0 ? error : it.error;
    if (--it.requests_left > 0) {
      return;
    }
    io_ended_.push_back(it.move.id);
  }
  wake_();
}

CuResult Moves::poll(std::vector<MoveEnded>& ended) {
  for (; !failed_at_once_.empty(); failed_at_once_.pop_front()) {
    end(failed_at_once_.front(), moves_.at(failed_at_once_.front()).move.error, now_ns(), ended);
  }
  std::vector<std::uint64_t> io;
  {
    const MutexLock lock(io_mutex_);
    io.swap(io_ended_);
  }
  for (const std::uint64_t id : io) {
    UnderWay& it = moves_.at(id);
    if (it.direct) {
      direct_ended(id, it, ended);
    } else if (it.move.to == Tier::kDevice && it.error == 0) {
      copy(it);
    } else {
      end(id, it.error, now_ns(), ended);
    }
  }
  copied_.clear();
  const CuResult result = lanes_.poll(copied_);
  for (const CopyLanes::Ended& copied : copied_) {
    UnderWay& it = moves_.at(copied.tag);
    it.begun_ns = it.begun_ns == 0 ? copied.begun_ns : it.begun_ns;
    if (it.move.to == Tier::kStorage && !copied.failed) {
      read_or_write(it);
    } else {
      end(copied.tag, copied.failed ? EIO : 0, copied.ended_ns, ended);
    }
  }
  for (; !waiting_.empty() && !slots_.empty(); waiting_.pop_front()) {
    UnderWay& it = moves_.at(waiting_.front());
    it.staging = slots_.back();
    slots_.pop_back();
    begin(it);
  }
  return result;
}

void Moves::end(std::uint64_t id, int error, TimeNs at_ns, std::vector<MoveEnded>& ended) {
  UnderWay& it = moves_.at(id);
  if (it.staging != nullptr) {
    slots_.push_back(it.staging);
  }
  ended.push_back(
      {.move = std::move(it.move), .error = error, .begun_ns = it.begun_ns, .ended_ns = at_ns});
  moves_.erase(id);
}

}  // namespace spillway::cuda
