// The workers that carry transfers out, between a platform and a swap file that are the test's: it
// holds copies up, answers requests, and sees what ends in which order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "platform/common/held_io.h"
#include "platform/common/process/clock.h"
#include "platform/common/storage/transfer_workers.h"

namespace spillway {

// A job is known by its transfer's number.
class FakeCarrier final : public TransferCarrier {
 public:
  struct Ended {
    TransferId id = 0;
    int error = 0;
    bool operator==(const Ended&) const = default;
  };

  void* source_of(TransferJob& job, std::size_t part) override {
    return memory_.data() + job.transfer.blocks[part] * kPageBytes;
  }
  void copy(TransferJob& job) override {
    std::unique_lock lock(mutex_);
    copied_.push_back(job.transfer.id);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_.contains(job.transfer.id); });
    for (const TransferJob::Part& part : job.parts) {
      if (part.staging != nullptr) {
        staged_.push_back(*part.staging);
      }
    }
  }
  void ended(TransferJob& job, int error) override {
    const std::scoped_lock lock(mutex_);
    ended_.push_back({.id = job.transfer.id, .error = error});
    changed_.notify_all();
  }

  // Who comes to copy this one stays there until it is let go.
  void hold(TransferId id) {
    const std::scoped_lock lock(mutex_);
    held_.insert(id);
  }
  void let_go(TransferId id) {
    const std::scoped_lock lock(mutex_);
    held_.erase(id);
    changed_.notify_all();
  }
  void wait_for_copy(TransferId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::ranges::find(copied_, id) != copied_.end(); });
  }
  // Those that have ended, when there are at least so many.
  std::vector<Ended> wait_for_ends(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_.size() >= count; });
    return ended_;
  }
  std::vector<TransferId> order_of_ends(std::size_t count) {
    std::vector<TransferId> ids;
    for (const Ended& one : wait_for_ends(count)) ids.push_back(one.id);
    return ids;
  }
  [[nodiscard]] std::vector<TransferId> copied() const {
    const std::scoped_lock lock(mutex_);
    return copied_;
  }
  // The first byte of what had been read for each block when it was copied.
  [[nodiscard]] std::vector<char> staged() const {
    const std::scoped_lock lock(mutex_);
    return staged_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<TransferId> held_;
  std::vector<TransferId> copied_;
  std::vector<Ended> ended_;
  std::vector<char> staged_;
  std::vector<char> memory_ = std::vector<char>(64 * kPageBytes);
};

struct TransferWorld {
  explicit TransferWorld(const LinkSpeed& link = {}, const StorageIo::Wrap& wrap = {})
      : storage(test_swap_file(), 4, wrap ? wrap : held_by(requests)),
        workers(link, &storage, staging, failures, carrier) {}

  // Of one page of each block; its places are the block's number in pages.
  static std::shared_ptr<TransferJob> job(TransferId id, Cause cause, Tier from, Tier to,
                                          std::vector<BlockId> blocks) {
    auto made = std::make_shared<TransferJob>();
    for (const BlockId block : blocks) {
      made->parts.push_back({.bytes = kPageBytes, .storage_offset = block * kPageBytes});
    }
    made->transfer = {.id = id,
                      .from = from,
                      .to = to,
                      .cause = cause,
                      .bytes = blocks.size() * kPageBytes,
                      .blocks = std::move(blocks)};
    made->ready_ns = now_ns();
    return made;
  }
  // From host memory for a fault or a prefetch, else to it; of a block with the same number.
  void add(TransferId id, Cause cause) {
    const bool in = cause == Cause::kFault || cause == Cause::kPrefetch;
    workers.add(job(id, cause, in ? Tier::kHost : Tier::kDevice, in ? Tier::kDevice : Tier::kHost,
                    {static_cast<BlockId>(id)}));
  }
  void add_read(TransferId id, Cause cause, std::vector<BlockId> blocks) {
    workers.add(job(id, cause, Tier::kStorage, Tier::kDevice, std::move(blocks)));
  }
  void add_write(TransferId id, Cause cause, std::vector<BlockId> blocks) {
    workers.add(job(id, cause, Tier::kDevice, Tier::kStorage, std::move(blocks)));
  }

  HeldRequests requests;
  StagingPool staging;
  Failures failures{[](const Error&) {}};
  FakeCarrier carrier;
  StorageIo storage;
  TransferWorkers workers;
};

}  // namespace spillway
