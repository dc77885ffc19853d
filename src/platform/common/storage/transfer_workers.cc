// See transfer_workers.h. None of the threads waits for another but in its queue: what a thread
// needs to go on never depends on work that is queued behind it.
#include "platform/common/storage/transfer_workers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/service_thread.h"

namespace spillway {
namespace {

constexpr TimeNs kNotAtAll = std::numeric_limits<TimeNs>::max();

LinkDirection direction_of(const Transfer& transfer) {
  return transfer.to == Tier::kDevice ? LinkDirection::kToDevice : LinkDirection::kFromDevice;
}

bool moves(const TransferJob& job, BlockId block) {
  const std::vector<BlockId>& blocks = job.transfer.blocks;
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

}  // namespace

TransferWorkers::TransferWorkers(const LinkSpeed& link, StorageIo* storage, StagingPool& staging,
                                 Failures& failures, TransferCarrier& carrier)
    : link_(link), storage_(storage), staging_(&staging), failures_(&failures), carrier_(&carrier) {
  threads_.push_back(service_thread("spw-migrate", [this] { work(urgent_); }));
  threads_.push_back(service_thread("spw-prefetch", [this] { work(ahead_); }));
}

TransferWorkers::~TransferWorkers() {
  for (Queue* const queue : {&urgent_, &ahead_}) {
    {
      const MutexLock lock(queue->mutex);
      queue->stop = true;
    }
    queue->wanted.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

TimeNs TransferWorkers::processor_ns() const {
  return spillway::processor_ns(threads_[0]) + spillway::processor_ns(threads_[1]);
}

void TransferWorkers::add(std::shared_ptr<TransferJob> job) {
  const Cause cause = job->transfer.cause;
  Queue& queue = cause == Cause::kFault || cause == Cause::kEvict ? urgent_ : ahead_;
  {
    const MutexLock lock(queue.mutex);
    const bool first = cause == Cause::kFault || cause == Cause::kPrefetch;
    (first ? queue.first : queue.second).push_back(std::move(job));
  }
  queue.wanted.notify_one();
}

void TransferWorkers::hurry(BlockId block) {
  Job found;
  {
    const MutexLock lock(ahead_.mutex);
    const auto job = std::find_if(ahead_.first.begin(), ahead_.first.end(),
                                  [&](const Job& one) { return moves(*one, block); });
    if (job == ahead_.first.end()) {
      return;
    }
    found = std::move(*job);
    ahead_.first.erase(job);
  }
  {
    const MutexLock lock(urgent_.mutex);
    urgent_.first.push_back(std::move(found));
  }
  urgent_.wanted.notify_one();
}

void TransferWorkers::work(Queue& queue) {
  MutexLock lock(queue.mutex);
  while (true) {
    TimeNs look_again_ns = kNotAtAll;
    // What can be put on the link goes first: it travels while the other is copied.
    if (const Job job = next_waiting(queue, look_again_ns)) {
      lock.unlock();
      execute(job, queue);
      lock.lock();
    } else if (const Job carried = next_carried(queue, look_again_ns)) {
      lock.unlock();
      deliver(*carried);
      lock.lock();
    } else if (look_again_ns != kNotAtAll) {
      queue.mutex.wait_until(queue.wanted, std::chrono::steady_clock::time_point(
                                               std::chrono::nanoseconds(look_again_ns)));
    } else if (queue.stop) {
      return;
    } else {
      queue.mutex.wait(queue.wanted);
    }
  }
}

// What has come to the link's other end by now.
TransferWorkers::Job TransferWorkers::next_carried(Queue& queue, TimeNs& look_again_ns) {
  if (queue.on_link.empty()) {
    return nullptr;
  }
  const auto first = queue.on_link.begin();
  if (first->first > now_ns()) {
    look_again_ns = std::min(look_again_ns, first->first);
    return nullptr;
  }
  Job job = std::move(first->second);
  queue.on_link.erase(first);
  return job;
}

// The first that can go on. What is moved ahead of need waits until the link is free, so that what
// somebody waits for never stands in line behind more than one of its jobs; what goes the other way
// meanwhile passes it.
TransferWorkers::Job TransferWorkers::next_waiting(Queue& queue, TimeNs& look_again_ns) {
  for (auto* const jobs : {&queue.first, &queue.second}) {
    for (auto job = jobs->begin(); job != jobs->end(); ++job) {
      if (&queue == &ahead_ && takes_link(**job)) {
        const TimeNs free_ns = link_.free_at_ns(direction_of((*job)->transfer));
        if (free_ns > now_ns()) {
          look_again_ns = std::min(look_again_ns, free_ns);
          continue;
        }
      }
      Job found = std::move(*job);
      jobs->erase(job);
      return found;
    }
  }
  return nullptr;
}

// Bytes from the swap file have to be read first; those that go there are written where they lie.
// Between storage and host memory there is no link.
bool TransferWorkers::takes_link(const TransferJob& job) {
  const Transfer& transfer = job.transfer;
  return job.error == 0 && transfer.to != Tier::kStorage &&
         (transfer.from != Tier::kStorage || (job.io_done && transfer.to == Tier::kDevice));
}

// A job comes here once; one with I/O a second time, when its bytes have been read or written.
void TransferWorkers::execute(const Job& job, Queue& queue) {
  const Transfer& transfer = job->transfer;
  const bool storage = transfer.from == Tier::kStorage || transfer.to == Tier::kStorage;
  if (storage && job->error == 0 && !job->io_done) {
    submit_io(job, queue);
    return;
  }
  if (takes_link(*job)) {
    const TimeNs due_ns = link_.book(direction_of(transfer), transfer.bytes, job->ready_ns);
    if (due_ns > now_ns()) {
      const MutexLock lock(queue.mutex);
      queue.on_link.emplace(due_ns, job);
      return;
    }
  }
  deliver(*job);
}

void TransferWorkers::deliver(TransferJob& job) {
  const int error = job.error;
  if (error == 0 && job.transfer.to != Tier::kStorage) {
    const TimeNs begin_ns = now_ns();
    carrier_->copy(job);
    copy_ns_ += now_ns() - begin_ns;
    copied_bytes_ += job.transfer.bytes;
  }
  for (char* const buffer : job.buffers) {
    staging_->give_back(buffer);
  }
  carrier_->ended(job, error);
}

bool TransferWorkers::take_staging(TransferJob& job) {
  std::vector<Bytes> bytes;
  bytes.reserve(job.parts.size());
  for (const TransferJob::Part& part : job.parts) {
    bytes.push_back(part.bytes);
  }
  const std::vector<char*> places = staging_->take_for(bytes, job.buffers);
  for (std::size_t i = 0; i < places.size(); ++i) {
    job.parts[i].staging = places[i];
  }
  return !places.empty();
}

void TransferWorkers::submit_io(const Job& job, Queue& queue) {
  const bool write = job->transfer.to == Tier::kStorage;
  if (!write && !take_staging(*job)) {
    job->error = ENOMEM;
    deliver(*job);
    return;
  }
  job->requests_left = static_cast<std::uint32_t>(job->parts.size());
  for (std::size_t i = 0; i < job->parts.size(); ++i) {
    const TransferJob::Part& part = job->parts[i];
    storage_->submit(
        {.write = write,
         .memory = write ? carrier_->source_of(*job, i) : part.staging,
         .bytes = part.bytes,
         .offset = part.storage_offset,
         .done = [this, job, i, &queue](int error) { request_ended(job, i, error, queue); }});
  }
}

void TransferWorkers::request_ended(const Job& job, std::size_t part, int error, Queue& queue) {
  if (error != 0) {
    const TransferJob::Part& failed = job->parts[part];
    job->error = error;
    failures_->note_cause(storage_->error_text(job->transfer.to == Tier::kStorage, failed.bytes,
                                               failed.storage_offset, error));
  }
  if (--job->requests_left > 0) {
    return;
  }
  job->ready_ns = now_ns();
  job->io_done = true;
  // Who takes it may be the last, and the queue gone when the lock is: it is told of before.
  const MutexLock lock(queue.mutex);
  queue.first.push_front(job);
  queue.wanted.notify_one();
}

}  // namespace spillway
