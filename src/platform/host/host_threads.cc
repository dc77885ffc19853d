// The threads: DeepUM's four (section 3, figure 4) over one engine. See host_platform.h.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "platform/host/host_platform.h"
#include "platform/host/service_thread.h"

namespace spillway::host {
namespace {

// How long the correlator lets marks of launches lie when nobody waits.
constexpr std::chrono::milliseconds kIdleWait{100};

}  // namespace

void HostPlatform::start_threads() {
  stop_event_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  threads_.push_back(service_thread("spw-fault", [this] { handle_faults(); }));
  threads_.push_back(service_thread("spw-correlate", [this] { correlate(); }));
  threads_.push_back(service_thread("spw-migrate", [this] { work(urgent_work_); }));
  threads_.push_back(service_thread("spw-prefetch", [this] { work(ahead_work_); }));
}

void HostPlatform::stop_threads() {
  if (threads_.empty()) {
    return;
  }
  wait_until_idle();
  stop_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_event_.get(), &one, sizeof(one));
  wake_correlator();
  for (WorkQueue* queue : {&urgent_work_, &ahead_work_}) {
    {
      const std::scoped_lock lock(queue->mutex);
      queue->stop = true;
    }
    queue->wanted.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

// --- Fault handling
// --------------------------------------------------------------------------------

void HostPlatform::handle_faults() {
  constexpr int kLookAtChildrenEveryMs = 200;
  std::vector<pollfd> waits;
  while (!stop_) {
    waits = {pollfd{.fd = userfault_.fd(), .events = POLLIN, .revents = 0},
             pollfd{.fd = stop_event_.get(), .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      waits.push_back({.fd = child.userfault.fd(), .events = POLLIN, .revents = 0});
    }
    if (::poll(waits.data(), waits.size(), children_.empty() ? -1 : kLookAtChildrenEveryMs) < 0 &&
        errno != EINTR) {
      return;
    }
    take_own_faults();
    // Serving one may add others behind it.
    const std::size_t before = waits.size() - 2;
    for (std::size_t i = 0; i < before; ++i) {
      if ((waits[i + 2].revents & POLLIN) != 0) {
        serve_child(children_[i]);
      }
    }
    if (!children_.empty()) {
      forget_ended_children();
    }
  }
}

void HostPlatform::take_own_faults() {
  std::array<uffd_msg, 64> events{};
  std::size_t count = 0;
  {
    const std::scoped_lock lock(events_mutex_);
    count = userfault_.read(events);
    for (std::size_t i = 0; i < count; ++i) {
      if (events[i].event == UFFD_EVENT_FORK) {
        adopt_child(static_cast<int>(events[i].arg.fork.ufd));
      }
    }
  }
  const TimeNs at_ns = now_ns();
  bool faults = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (events[i].event != UFFD_EVENT_PAGEFAULT) {
      continue;
    }
    const auto& fault = events[i].arg.pagefault;
    const auto offset = fault.address - reinterpret_cast<std::uint64_t>(base_);  // NOLINT
    const FaultRecord record{
        .block = static_cast<BlockId>(offset / kBlockBytes),
        .write = (fault.flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)) != 0,
        .at_ns = at_ns};
    while (!fault_queue_.push(record)) {
      wake_correlator();
      std::this_thread::yield();
    }
    faults = true;
  }
  if (faults) {
    wake_correlator();
  }
}

// --- Correlator
// ------------------------------------------------------------------------------------

void HostPlatform::wake_correlator() {
  {
    const std::scoped_lock lock(wake_mutex_);
    if (woken_) {
      return;
    }
    woken_ = true;
  }
  wake_.notify_one();
}

void HostPlatform::correlate() {
  while (!stop_) {
    {
      std::unique_lock lock(wake_mutex_);
      wake_.wait_for(lock, kIdleWait, [&] { return woken_ || stop_; });
      woken_ = false;
    }
    const std::scoped_lock lock(mutex_);
    if (forking_) {
      continue;  // after_fork wakes us
    }
    take_marks();
    take_faults();
    check_progress();
  }
}

void HostPlatform::take_marks() {
  {
    const std::scoped_lock lock(marks_mutex_);
    marks_taken_.swap(marks_);
  }
  for (const Mark& mark : marks_taken_) {
    if (mark.block_count > 0) {
      engine_.note_accesses(mark.first_block, mark.block_count);
      record_accesses(mark);
      continue;
    }
    if (marked_) {
      engine_.end_launch(*marked_);
    }
    Launch launch;
    launch.seq = next_seq_++;
    launch.execution = executions_.id_of(mark.hash);
    launch.tells_all = mark.tells_all;
    current_ = launch.execution;
    ++waits_of(launch.execution, mark.name).launches;
    if (recorder_) {
      recorder_->launch(launch.execution, mark.name, mark.at_ns, mark.stalled_ns);
    }
    engine_.begin_launch(launch);
    std::erase(ready_, launch.seq);
    marked_ = launch.seq;
  }
  marks_taken_.clear();
}

void HostPlatform::record_accesses(const Mark& mark) {
  const Space& space = engine_.space();
  if (!recorder_ || mark.first_block >= space.block_slots()) {
    return;
  }
  const AllocationId id = space.block(mark.first_block).allocation;
  if (space.is_live(id)) {
    recorder_->access(id, space.allocation(id).bytes, mark.writes);
  }
}

void HostPlatform::take_faults() {
  fault_batch_.clear();
  FaultRecord record;
  while (fault_queue_.pop(record)) {
    const Space& space = engine_.space();
    if (record.block >= space.block_slots() || space.block(record.block).tenants == 0) {
      fault_on_dead_block(record.block);
      continue;
    }
    begin_waiting(record);
    fault_batch_.push_back({.block = record.block, .write = record.write});
  }
  if (fault_batch_.empty()) {
    return;
  }
  if (link_.speed().fault_latency_ns > 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(link_.speed().fault_latency_ns));
  }
  engine_.thread_faults(fault_batch_);
}

// The program uses memory that it has freed, or never had. What it reads is undefined; it must not
// stop for ever.
void HostPlatform::fault_on_dead_block(BlockId id) {
  char* const start = base_ + Space::address_of(id);
  if (const int error = userfault_.zero(start, kBlockBytes); error != 0 && error != EEXIST) {
    must(error, "zero");
  }
  set_populated(place(id), kBlockBytes);
  userfault_.wake(start, kBlockBytes);
}

void HostPlatform::check_progress() {
  if (engine_.fatal()) {
    Error error = engine_.fatal().value_or(Error{});
    const std::scoped_lock lock(io_error_mutex_);
    if (!io_error_text_.empty()) {
      error.message = io_error_text_ + "; stopping before data is lost";
    }
    fatal(error);
  } else if (const std::optional<Error> stuck = engine_.stuck()) {
    fatal(*stuck);
  } else {
    warn_of_waiting();
  }
}

// A launch that runs may still end, so this is no error. But if it is the launch's own thread that
// waits, it will not.
void HostPlatform::warn_of_waiting() {
  if (warned_ || stopped_ == 0 || engine_.transfers_in_flight() > 0 ||
      now_ns() - stopped_since_ns_ < options_.warn_after_ns) {
    return;
  }
  warned_ = true;
  options_.warn(
      fmt::format("a thread has waited {:.1f} s for memory that running launches leave no room "
                  "for; {} of device memory are too few for what they name and what it touches "
                  "beside that",
                  to_seconds(now_ns() - stopped_since_ns_),
                  format_bytes(engine_.capacity_bytes(Tier::kDevice))));
}

void HostPlatform::fatal(const Error& error) {
  if (!fatal_reported_.exchange(true)) {
    options_.on_fatal(error);
  }
}

// --- Migration and prefetching
// ----------------------------------------------------------------------

void HostPlatform::work(WorkQueue& queue) {
  std::unique_lock lock(queue.mutex);
  while (true) {
    queue.wanted.wait(lock,
                      [&] { return queue.stop || !queue.first.empty() || !queue.second.empty(); });
    if (queue.first.empty() && queue.second.empty()) {
      return;
    }
    std::deque<std::shared_ptr<Job>>& jobs = queue.first.empty() ? queue.second : queue.first;
    const std::shared_ptr<Job> job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    execute(job, queue);
    lock.lock();
  }
}

// A job comes here once; one with I/O a second time, when its bytes have been read or written.
void HostPlatform::execute(const std::shared_ptr<Job>& job, WorkQueue& queue) {
  const Transfer& transfer = job->transfer;
  const bool storage = transfer.from == Tier::kStorage || transfer.to == Tier::kStorage;
  if (job->io_error != 0 && !job->io_done) {
    finish(*job, job->io_error);
    return;
  }
  if (storage && !job->io_done) {
    submit_io(job, queue);
    return;
  }
  const int error = job->io_error;
  if (error == 0 && !(storage && transfer.to == Tier::kStorage)) {
    const TimeNs begin_ns = now_ns();
    const TimeNs due_ns = link_.book(
        transfer.to == Tier::kDevice ? LinkDirection::kToDevice : LinkDirection::kFromDevice,
        transfer.bytes, begin_ns);
    copy(*job);
    const TimeNs end_ns = now_ns();
    copy_ns_ += end_ns - begin_ns;
    copied_bytes_ += transfer.bytes;
    if (due_ns > end_ns) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(due_ns - end_ns));
    }
  }
  for (char* const buffer : job->buffers) {
    staging_.give_back(buffer);
  }
  finish(*job, error);
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
      for (char* const buffer : job->buffers) {
        staging_.give_back(buffer);
      }
      finish(*job, ENOMEM);
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
      unmap(id);
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
