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
      engine_.note_accesses(latest_, mark.first_block, mark.block_count);
      record_accesses(mark);
      if (marked_tells_all_) {
        uses_of(current_).emplace_back(mark.first_block, mark.block_count);
      }
      continue;
    }
    if (marked_) {
      engine_.end_launch(*marked_);
    }
    Launch launch;
    launch.tag = next_tag_++;
    launch.execution = executions_.id_of(mark.hash);
    launch.tells_all = mark.tells_all;
    current_ = launch.execution;
    ++waits_of(launch.execution, mark.name).launches;
    if (recorder_) {
      recorder_->launch(launch.execution, mark.name, mark.at_ns, mark.stalled_ns, false);
    }
    marked_ = issue(launch).id;
    std::erase(ready_, launch.tag);
    marked_tells_all_ = mark.tells_all;
    if (mark.tells_all) {
      uses_of(current_).clear();
    }
    for (const auto& [first, count] : uses_of(current_)) {
      engine_.note_uses(first, count);
    }
  }
  marks_taken_.clear();
}

std::vector<std::pair<BlockId, std::uint32_t>>& HostPlatform::uses_of(ExecutionId execution) {
  if (execution >= uses_.size()) {
    uses_.resize(execution + std::size_t{1});
  }
  return uses_[execution];
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
  engine_.thread_faults(latest_, fault_batch_);
}

// The program uses memory that it has freed, or never had. What it reads is undefined; it must not
// stop for ever.
void HostPlatform::fault_on_dead_block(BlockId id) {
  char* const start = base_ + offset_of(id);
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

}  // namespace spillway::host
