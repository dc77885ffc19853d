// Two threads that carry transfers out: one for what somebody waits for and what makes room for it,
// one for what is moved ahead of need (DeepUM section 3: migration, prefetching). They ask the swap
// file for its part, keep to the link's speed, and leave the copying to the platform.
// Layer: platform, common. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "platform/common/failures.h"
#include "platform/common/storage/link_throttle.h"
#include "platform/common/storage/staging_pool.h"
#include "platform/common/storage/storage_io.h"
#include "platform/common/storage/transfer_job.h"

namespace spillway {

class TransferWorkers {
 public:
  // All of them must outlive it. storage: nullptr where there is none.
  TransferWorkers(const LinkSpeed& link, StorageIo* storage, StagingPool& staging,
                  Failures& failures, TransferCarrier& carrier);
  // Nothing may be under way any more.
  ~TransferWorkers();
  TransferWorkers(const TransferWorkers&) = delete;
  TransferWorkers& operator=(const TransferWorkers&) = delete;

  // Faults before evictions, prefetches before copies ahead of need; otherwise in this order, but
  // what can go on passes what must wait for the link.
  void add(std::shared_ptr<TransferJob> job);
  // Somebody has stopped at a block that is on its way, behind others: it goes first.
  void hurry(BlockId block);

  [[nodiscard]] TimeNs copy_ns() const { return copy_ns_; }  // that the threads spent copying
  [[nodiscard]] Bytes copied_bytes() const { return copied_bytes_; }
  [[nodiscard]] TimeNs processor_ns() const;  // that they have run on a processor

 private:
  using Job = std::shared_ptr<TransferJob>;
  // What one thread has to do: all of `first`, then of `second`; and what it has put on the link,
  // by when that arrives.
  struct Queue {
    Mutex mutex;
    std::condition_variable wanted;
    std::deque<Job> first SPILLWAY_GUARDED_BY(mutex);
    std::deque<Job> second SPILLWAY_GUARDED_BY(mutex);
    std::multimap<TimeNs, Job> on_link SPILLWAY_GUARDED_BY(mutex);
    bool stop SPILLWAY_GUARDED_BY(mutex) = false;
  };

  void work(Queue& queue);
  Job next_waiting(Queue& queue, TimeNs& look_again_ns) SPILLWAY_REQUIRES(queue.mutex);
  static Job next_carried(Queue& queue, TimeNs& look_again_ns) SPILLWAY_REQUIRES(queue.mutex);
  [[nodiscard]] static bool takes_link(const TransferJob& job);
  void execute(const Job& job, Queue& queue);
  void deliver(TransferJob& job);
  bool take_staging(TransferJob& job);
  void submit_io(const Job& job, Queue& queue);
  void request_ended(const Job& job, std::size_t part, int error, Queue& queue);

  LinkThrottle link_;
  StorageIo* storage_;
  StagingPool* staging_;
  Failures* failures_;
  TransferCarrier* carrier_;
  Queue urgent_;
  Queue ahead_;
  std::atomic<TimeNs> copy_ns_{0};
  std::atomic<Bytes> copied_bytes_{0};
  std::vector<std::thread> threads_;
};

}  // namespace spillway
