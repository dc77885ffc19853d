// The migration and the prefetching thread: copies, I/O, and what the link carries. See
// host_platform.h. Copies and I/O happen without the engine's lock.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "platform/host/host_platform.h"

namespace spillway::host {
namespace {

constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();

LinkDirection direction_of(const Transfer& transfer) {
  return transfer.to == Tier::kDevice ? LinkDirection::kToDevice : LinkDirection::kFromDevice;
}

}  // namespace

void HostPlatform::work(WorkQueue& queue) {
  std::unique_lock lock(queue.mutex);
  while (true) {
    TimeNs look_again_ns = kNever;
    // What can be put on the link goes first: it travels while the other is copied.
    if (const std::shared_ptr<Job> job = next_waiting(queue, look_again_ns)) {
      lock.unlock();
      execute(job, queue);
      lock.lock();
    } else if (const std::shared_ptr<Job> carried = next_carried(queue, look_again_ns)) {
      lock.unlock();
      deliver(*carried);
      lock.lock();
    } else if (look_again_ns != kNever) {
      queue.wanted.wait_until(
          lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(look_again_ns)));
    } else if (queue.stop) {
      return;
    } else {
      queue.wanted.wait(lock);
    }
  }
}

// What has come to the link's other end by now. With the queue's lock held, like next_waiting.
std::shared_ptr<HostPlatform::Job> HostPlatform::next_carried(WorkQueue& queue,
                                                              TimeNs& look_again_ns) {
  if (queue.on_link.empty()) {
    return nullptr;
  }
  const auto first = queue.on_link.begin();
  if (first->first > now_ns()) {
    look_again_ns = std::min(look_again_ns, first->first);
    return nullptr;
  }
  std::shared_ptr<Job> job = std::move(first->second);
  queue.on_link.erase(first);
  return job;
}

// The first that can go on. What is moved ahead of need waits until the link is free, so that what
// somebody waits for never stands in line behind more than one of its jobs; what goes the other way
// meanwhile passes it.
std::shared_ptr<HostPlatform::Job> HostPlatform::next_waiting(WorkQueue& queue,
                                                              TimeNs& look_again_ns) {
  for (auto* const jobs : {&queue.first, &queue.second}) {
    for (auto job = jobs->begin(); job != jobs->end(); ++job) {
      if (&queue == &ahead_work_ && takes_link(**job)) {
        const TimeNs free_ns = link_.free_at_ns(direction_of((*job)->transfer));
        if (free_ns > now_ns()) {
          look_again_ns = std::min(look_again_ns, free_ns);
          continue;
        }
      }
      std::shared_ptr<Job> found = std::move(*job);
      jobs->erase(job);
      return found;
    }
  }
  return nullptr;
}

// Bytes from the swap file have to be read first; those that go there are written where they lie.
bool HostPlatform::takes_link(const Job& job) {
  const Transfer& transfer = job.transfer;
  return job.io_error == 0 && transfer.to != Tier::kStorage &&
         (transfer.from != Tier::kStorage || job.io_done);
}

// A job comes here once; one with I/O a second time, when its bytes have been read or written.
void HostPlatform::execute(const std::shared_ptr<Job>& job, WorkQueue& queue) {
  const Transfer& transfer = job->transfer;
  const bool storage = transfer.from == Tier::kStorage || transfer.to == Tier::kStorage;
  if (storage && job->io_error == 0 && !job->io_done) {
    submit_io(job, queue);
    return;
  }
  if (takes_link(*job)) {
    const TimeNs due_ns = link_.book(direction_of(transfer), transfer.bytes, job->ready_ns);
    if (due_ns > now_ns()) {
      const std::scoped_lock lock(queue.mutex);
      queue.on_link.emplace(due_ns, job);
      return;
    }
  }
  deliver(*job);
}

void HostPlatform::deliver(Job& job) {
  const int error = job.io_error;
  if (error == 0 && job.transfer.to != Tier::kStorage) {
    const TimeNs begin_ns = now_ns();
    copy(job);
    copy_ns_ += now_ns() - begin_ns;
    copied_bytes_ += job.transfer.bytes;
  }
  for (char* const buffer : job.buffers) {
    staging_.give_back(buffer);
  }
  finish(job, error);
}

// Into a frame, which then becomes the block's pages. Those are writable when they appear, so a
// block that is to be read only is protected at once; whether somebody wrote it in between is told
// by comparing. False if there is no frame or it cannot be moved: nothing has happened.
bool HostPlatform::fill_by_frame(char* block, const void* from, char& writable, char& touched) {
  if (!frames_) {
    return false;
  }
  void* frame = nullptr;
  {
    const std::scoped_lock lock(frames_mutex_);
    frame = frames_->take();
  }
  if (frame == nullptr) {
    return false;
  }
  std::memcpy(frame, from, kBlockBytes);
  const bool placed = frames_->place(frame, block);
  if (placed && writable == 0) {
    must(userfault_.protect(block, kBlockBytes), "protect");
    touched = std::memcmp(block, from, kBlockBytes) != 0 ? 1 : 0;
  }
  const std::scoped_lock lock(frames_mutex_);
  placed ? frames_->placed(frame) : frames_->give_back(frame);
  return placed;
}

// Giving up half-way is not possible: pages that have appeared may have been written.
void HostPlatform::fill_block(char* block, const void* from, Bytes bytes, bool writable) {
  // The system may be short of memory for a moment.
  constexpr int kTries = 100;
  int error = 0;
  for (int tries = 0; tries < kTries; ++tries) {
    error = userfault_.copy(block, from, bytes, writable);
    if (error != ENOMEM) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  must(error, "fill");
}

void HostPlatform::copy(Job& job) {
  const Transfer& transfer = job.transfer;
  for (std::size_t i = 0; i < transfer.blocks.size(); ++i) {
    char* const here = address_of(transfer.blocks[i]);
    const Bytes bytes = job.block_bytes[i];
    if (transfer.to == Tier::kHost) {
      std::memcpy(host_arena_ + job.host_offset[i], here, bytes);
      continue;
    }
    landing_bytes_ += bytes;
    const void* from = transfer.from == Tier::kHost
                           ? static_cast<const void*>(host_arena_ + job.host_offset[i])
                           : job.staging[i];
    if (bytes < kBlockBytes || !fill_by_frame(here, from, job.writable[i], job.touched[i])) {
      fill_block(here, from, bytes, job.writable[i] != 0);
    }
  }
}

void HostPlatform::submit_io(const std::shared_ptr<Job>& job, WorkQueue& queue) {
  const Transfer& transfer = job->transfer;
  const bool write = transfer.to == Tier::kStorage;
  const std::size_t count = transfer.blocks.size();
  job->io_left = static_cast<std::uint32_t>(count);
  if (!write) {
    job->staging = staging_.take_for(job->block_bytes, job->buffers);
    if (job->staging.empty()) {
      job->io_error = ENOMEM;
      deliver(*job);
      return;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    void* memory = nullptr;
    if (!write) {
      memory = job->staging[i];
    } else if (transfer.from == Tier::kDevice) {
      memory = address_of(transfer.blocks[i]);
    } else {
      memory = host_arena_ + job->host_offset[i];
    }
    io_begins(write);
    io_->submit({.write = write,
                 .memory = memory,
                 .bytes = job->block_bytes[i],
                 .offset = job->storage_offset[i],
                 .done = [this, job, write, i, &queue](int error) {
                   io_ended(write, error == 0 ? job->block_bytes[i] : 0);
                   if (error != 0) {
                     job->io_error = error;
                     note_io_error(
                         io_error_text(write, job->block_bytes[i], job->storage_offset[i], error));
                   }
                   if (--job->io_left > 0) {
                     return;
                   }
                   job->io_done = true;
                   job->ready_ns = now_ns();
                   {
                     const std::scoped_lock lock(queue.mutex);
                     queue.first.push_front(job);
                   }
                   queue.wanted.notify_one();
                 }});
  }
}

void HostPlatform::io_begins(bool write) {
  const std::scoped_lock lock(io_meters_mutex_);
  IoMeter& meter = io_meters_[write ? 1 : 0];
  if (meter.under_way++ == 0) {
    meter.since_ns = now_ns();
  }
}

void HostPlatform::io_ended(bool write, Bytes bytes) {
  const std::scoped_lock lock(io_meters_mutex_);
  IoMeter& meter = io_meters_[write ? 1 : 0];
  meter.bytes += bytes;
  if (--meter.under_way == 0) {
    meter.busy_ns += now_ns() - meter.since_ns;
  }
}

void HostPlatform::note_io_error(std::string text) {
  const std::scoped_lock lock(io_error_mutex_);
  io_error_text_ = std::move(text);
}

std::string HostPlatform::io_error_text(bool write, Bytes bytes, std::uint64_t offset,
                                        int error) const {
  return fmt::format("{}: cannot {} {} bytes at offset {}: {}", storage_ ? storage_->path() : "",
                     write ? "write" : "read", bytes, offset, std::strerror(error));
}

// What was to be written when it set out may be dead when it arrives: the next write must be seen.
void HostPlatform::protect_unmapped(const Transfer& transfer) {
  for (const BlockId id : transfer.blocks) {
    if (!engine_.space().block(id).mapped && bytes_of(id) > 0) {
      unmap_block(id);
    }
  }
}

void HostPlatform::finish(Job& job, int error) {
  const Transfer& transfer = job.transfer;
  const std::scoped_lock lock(mutex_);
  if (error == 0) {
    if (transfer.to == Tier::kDevice) {
      for (std::size_t i = 0; i < transfer.blocks.size(); ++i) {
        Place& at = place(transfer.blocks[i]);
        set_populated(at, job.block_bytes[i]);
        landing_bytes_ -= job.block_bytes[i];
        at.writable = job.writable[i] != 0;
        if (job.touched[i] != 0) {
          engine_.written_on_arrival(transfer.blocks[i]);
        }
      }
    }
    engine_.transfer_finished(transfer.id);
    protect_unmapped(transfer);
    trim_frames();
  } else {
    engine_.transfer_failed(transfer.id);
    if (error == ENOSPC && transfer.to == Tier::kStorage) {
      // The disk is full: what is there stays, and nothing more goes there.
      engine_.set_capacity_below(Tier::kStorage, engine_.used_bytes(Tier::kStorage));
    }
  }
  check_progress();
  if (engine_.transfers_in_flight() == 0) {
    idle_.notify_all();
  }
}

}  // namespace spillway::host
