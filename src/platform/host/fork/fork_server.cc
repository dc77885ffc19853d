// See fork_server.h.
#include "platform/host/fork/fork_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "platform/common/process/clock.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"
#include "platform/host/fork/known_process.h"

namespace spillway::host {
namespace {

void wake(const Descriptor& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof(one));
}

constexpr TimeNs kForAllNs = 10 * kNsPerS;  // that a child may be unable to take it

}  // namespace

ForkServer::ForkServer(Parent parent)
    : parent_(std::move(parent)), wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (parent_.userfault.reports_forks()) {
    thread_ = service_thread("spw-children", [this] { serve_until_stopped(); });
  }
}

ForkServer::~ForkServer() {
  stop_ = true;
  wake(wake_event_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ForkServer::before_fork(const Space& space) {
  used_bytes_ = AddressSpace::offset_of(static_cast<BlockId>(space.block_slots()));
  inherit_addresses_behind(used_bytes_, false);
  parent_is_needed_ = false;
  if (!parent_.userfault.reports_forks()) {
    return;
  }
  Snapshot snapshot;
  for (BlockId id = 0; id < space.block_slots(); ++id) {
    const Block& block = space.block(id);
    if (block.tenants > 0 && block.contents == Contents::kLive &&
        (!block.copies.has(Tier::kDevice) || parent_.pages.aside(id))) {
      const Tier tier = block.copies.has(Tier::kHost) ? Tier::kHost : Tier::kStorage;
      snapshot.emplace(id, parent_.places.keep(id, tier, block.bytes));
    }
  }
  parent_is_needed_ = !snapshot.empty() && used_bytes_ < parent_.addresses.bytes();
  const MutexLock events(events_mutex_);
  next_snapshot_ = std::move(snapshot);
}

void ForkServer::in_child() {
  if (parent_is_needed_ && !__atomic_load_n(&has_all_, __ATOMIC_RELAXED)) {
    link_to_parent(links_.address(), probe(), &has_all_);
  }
}

void ForkServer::after_fork() {
  std::optional<Snapshot> unused;
  {
    // The fork goes on as soon as its event has been read; who read it may not have come to it.
    const MutexLock events(events_mutex_);
    unused = std::exchange(next_snapshot_, {});  // the fork has failed, or nobody reports it
  }
  if (unused) {
    parent_.places.release(*unused);
  }
  inherit_addresses_behind(used_bytes_, true);
}

// A child that limits its address space (RLIMIT_AS) should not find it spent on what it will never
// use, but for the block by which it asks.
void ForkServer::inherit_addresses_behind(Bytes used_bytes, bool inherit) {
  const AddressSpace& addresses = parent_.addresses;
  used_bytes += kBlockBytes;
  if (parent_.userfault.reports_forks() && used_bytes < addresses.bytes()) {
    ::madvise(addresses.base() + used_bytes, addresses.bytes() - used_bytes,
              inherit ? MADV_DOFORK : MADV_DONTFORK);
  }
}

std::size_t ForkServer::read(const Userfault& userfault, std::span<uffd_msg> events) {
  bool forks = false;
  const MutexLock lock(events_mutex_);
  const std::size_t count = userfault.read(events);
  for (const uffd_msg& event : events.first(count)) {
    if (event.event == UFFD_EVENT_FORK) {
      // With the lock held: a snapshot that is there is the one of this fork.
      new_children_.push_back(
          {.userfault = Userfault::of_child(static_cast<int>(event.arg.fork.ufd)),
           .snapshot = std::exchange(next_snapshot_, std::nullopt),
           .probe = probe()});
      forks = true;
    }
  }
  if (forks) {
    wake(wake_event_);
  }
  return count;
}

void ForkServer::serve_until_stopped() {
  constexpr int kLookAtChildrenEveryMs = 200;
  constexpr int kTryAgainMs = 1;
  std::vector<pollfd> waits;
  while (!stop_) {
    take_new_children();
    int most_ms = children_.empty() ? -1 : kLookAtChildrenEveryMs;
    if (const MutexLock giving(giving_mutex_); give_all_) {
      most_ms = kTryAgainMs;
    }
    waits = {pollfd{.fd = wake_event_.get(), .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      waits.push_back({.fd = child.userfault.fd(), .events = POLLIN, .revents = 0});
      most_ms = child.unanswered.empty() ? most_ms : kTryAgainMs;
    }
    links_.add_to(waits);
    const bool polled = ::poll(waits.data(), waits.size(), most_ms) >= 0 || errno == EINTR;
    if (!polled || (waits[0].revents & POLLNVAL) != 0) {
      end_run(
          fmt::format("page faults of the program's children can be read no more: {}; ending it "
                      "before data is lost",
                      polled ? "a file descriptor has been closed" : std::strerror(errno)));
    }
    if ((waits[0].revents & POLLIN) != 0) {
      std::uint64_t calls = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_event_.get(), &calls, sizeof(calls));
    }
    std::size_t at = 1;
    for (Child& child : children_) {  // grandchildren are added elsewhere
      if ((waits[at++].revents & POLLIN) != 0 || !child.unanswered.empty()) {
        serve(child);
      }
    }
    links_.serve();
    forget_ended_children();
    const MutexLock giving(giving_mutex_);
    if (give_all_ && give_rest_to_all()) {
      for (const Child& child : children_) {
        if (child.linked && !child.told_of) {
          links_.tell_all_is_given(child.userfault.fd());
        }
      }
      give_all_ = false;
      given_.notify_all();
    }
  }
}

void ForkServer::give_all() {
  if (!thread_.joinable()) {
    return;
  }
  constexpr TimeNs kForLinksNs = 2 * kNsPerS;
  const MutexLock lock(giving_mutex_);
  give_all_ = true;
  link_until_ns_ = now_ns() + kForLinksNs;
  give_until_ns_ = now_ns() + kForAllNs;
  wake(wake_event_);
  giving_mutex_.wait(given_, [&]() SPILLWAY_REQUIRES(giving_mutex_) { return !give_all_; });
}

// False if one of them cannot take it for the moment, or has had children meanwhile.
bool ForkServer::give_rest_to_all() {
  take_new_children();
  bool all = true;
  const bool late = now_ns() > give_until_ns_;
  for (Child& child : children_) {
    const bool has_all = give_rest(child);
    if (!has_all && late) {
      give_up(child);
    }
    all &= has_all || late;
  }
  const MutexLock lock(events_mutex_);
  return all && new_children_.empty();
}

// Its own thread ends it, as it is told nothing before we go. One without that thread is another's
// to judge: the number under which it knows itself may be someone else's here.
void ForkServer::give_up(Child& child) const {
  if (std::exchange(child.told_of, true)) {
    return;
  }
  parent_.warn(fmt::format(
      "process {} cannot take the memory that it has from the program that made it, which is about "
      "to end: the system has none for it (is it at its memory limit?); it {}",
      child.process, child.linked ? "will be ended" : "must not use that memory any more"));
}

// It is about to ask, and would take us for killed if we ended before. One that a bare system call
// has made never asks, and one that has asked for all needs nothing else.
bool ForkServer::still_links(const Child& child) const {
  return !child.linked && child.wants_all_since_ns == 0 && child.snapshot &&
         !child.snapshot->empty() && links_.address().bytes > 0 && now_ns() < link_until_ns_ &&
         !is_gone(child);
}

bool ForkServer::give_rest(Child& child) {
  if (still_links(child) || !fill_all(child)) {
    return false;
  }
  if (!child.snapshot) {
    return true;
  }
  serve(child);  // it may have had children before
  return true;
}

bool ForkServer::fill_all(const Child& child) {
  if (!child.snapshot) {
    return true;
  }
  for (const auto& [id, kept] : *child.snapshot) {
    char* const start = parent_.addresses.address_of(id);
    const int error = fill_from_below(child, start, kept);
    if (error == EAGAIN || error == ENOMEM) {
      return false;
    }
    child.userfault.wake(start, kBlockBytes);
  }
  // Last, for those who cannot be told, or make children before they read it.
  const std::string mark(kPageBytes, 'a');
  const int error =
      child.userfault.copy(child.probe + kMarkPage * kPageBytes, mark.data(), kPageBytes, true);
  return error != EAGAIN && error != ENOMEM;
}

void ForkServer::take_new_children() {
  const MutexLock lock(events_mutex_);
  children_.splice(children_.end(), new_children_);
}

void ForkServer::serve(Child& child) {
  std::array<uffd_msg, 16> events{};
  const std::size_t count = child.userfault.read(events);
  for (const uffd_msg& event : std::span(events).first(count)) {
    if (event.event == UFFD_EVENT_FORK) {
      adopt_grandchild(child, static_cast<int>(event.arg.fork.ufd));
    } else if (event.event == UFFD_EVENT_PAGEFAULT) {
      child.unanswered.push_back(event.arg.pagefault);
    }
  }
  std::erase_if(child.unanswered, [&](const PageFault& fault) { return answer(child, fault); });
}

// It sees what the child sees.
void ForkServer::adopt_grandchild(const Child& child, int fd) {
  if (child.snapshot) {
    parent_.places.keep_again(*child.snapshot);
  }
  const MutexLock lock(events_mutex_);
  new_children_.push_back(
      {.userfault = Userfault::of_child(fd), .snapshot = child.snapshot, .probe = child.probe});
}

// False if it cannot be for the moment: the child forks, or the system is short of memory.
bool ForkServer::answer(Child& child, const PageFault& fault) {
  const std::uint64_t offset =
      fault.address - reinterpret_cast<std::uint64_t>(parent_.addresses.base());  // NOLINT
  const auto id = static_cast<BlockId>(offset / kBlockBytes);
  char* const start = parent_.addresses.address_of(id);
  int error = 0;
  if ((fault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0) {
    error = child.userfault.unprotect(start, kBlockBytes);
  } else if (!child.snapshot) {
    return end_stranger(child, fault);
  } else if (start == child.probe) {  // nobody else touches what lies behind all memory
    if (!answer_probe(child, static_cast<std::uint32_t>(offset % kBlockBytes / kPageBytes))) {
      return false;
    }
  } else if (const auto kept = child.snapshot->find(id); kept == child.snapshot->end()) {
    // Nothing was there when it was born: zeros, page by page, as others may be there already.
    error = child.userfault.zero(parent_.addresses.base() + offset / kPageBytes * kPageBytes,
                                 kPageBytes);
  } else {
    error = fill_from_below(child, start, kept->second);
  }
  if (error == EAGAIN || error == ENOMEM) {
    return false;
  }
  child.userfault.wake(start, kBlockBytes);  // also if it is ending
  return true;
}

// Who asks for all and cannot take it sees that it has not got it.
bool ForkServer::answer_probe(Child& child, std::uint32_t page) {
  if (page == kMarkPage) {
    child.wants_all_since_ns = child.wants_all_since_ns == 0 ? now_ns() : child.wants_all_since_ns;
    if (fill_all(child)) {
      return true;
    }
    if (now_ns() < child.wants_all_since_ns + kForAllNs) {
      return false;
    }
    give_up(child);
  }
  char* const place = child.probe + page * kPageBytes;
  const int error = child.userfault.zero(place, kPageBytes);
  if (error == EAGAIN || error == ENOMEM) {
    return false;
  }
  // First: the descriptor on its way keeps the child's faults open, and if we were killed then, who
  // asks would wait in one for ever.
  child.userfault.wake(place, kPageBytes);
  if (const auto process = links_.give(page, child.userfault.fd())) {
    child.process = *process;
    child.linked = true;
  }
  return true;
}

// Pages that are there already, of an attempt before this one, stay; those that the child has given
// back are its own.
int ForkServer::fill(const Child& child, char* start, const char* from, Bytes bytes) {
  const int error = child.userfault.copy(start, from, bytes, true);
  if (error != EEXIST && error != ENOENT) {
    return error;
  }
  for (Bytes at = 0; at < bytes; at += kPageBytes) {
    const int here = child.userfault.copy(start + at, from + at, kPageBytes, true);
    if (here != 0 && here != EEXIST && here != ENOENT) {
      return here;
    }
  }
  return error;
}

int ForkServer::fill_from_below(const Child& child, char* start, const KeptPlace& kept) {
  if (kept.host != kNoPlace) {
    return fill(child, start, parent_.host_memory + kept.host, kept.bytes);
  }
  char* const staging = parent_.staging.take();
  if (staging == nullptr) {
    return ENOMEM;
  }
  // As for the parent's own blocks: a read that fails may succeed the next time.
  constexpr int kTries = 16;
  int error = parent_.storage->read_now(staging, kept.bytes, kept.storage);
  for (int tries = 1; error != 0 && tries < kTries; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    error = parent_.storage->read_now(staging, kept.bytes, kept.storage);
  }
  if (error != 0) {
    parent_.failures.fatal(
        {ErrorCode::kIo, "a child of the program cannot read its memory: " +
                             parent_.storage->error_text(false, kept.bytes, kept.storage, error)});
  } else {
    error = fill(child, start, staging, kept.bytes);
  }
  parent_.staging.give_back(staging);
  return error;
}

// Nobody noted what was where when it was made: it must not go on with zeros. It is stopped where
// it looks, as its number may be another's here; where the kernel cannot do that, it is looked for.
bool ForkServer::end_stranger(Child& child, const PageFault& fault) {
  const auto inner = static_cast<pid_t>(fault.feat.ptid);
  auto* const place = reinterpret_cast<char*>(fault.address / kPageBytes * kPageBytes);  // NOLINT
  const int error = child.userfault.poison(place, kPageBytes);
  if (error == EAGAIN || error == ENOMEM) {
    return false;
  }
  const bool stopped = error == 0 || error == EEXIST || error == ESRCH;
  const std::optional<pid_t> process = stopped ? std::nullopt : process_known_as(inner, place);
  if (!std::exchange(child.told_of, true)) {
    parent_.warn(fmt::format(
        "process {} (as it knows itself) uses memory of the program that made it, and was not made "
        "by fork(); {}, as it would see wrong bytes",
        inner,
        stopped   ? "it is ended by SIGBUS"
        : process ? "ending it"
                  : "which process that is here cannot be told, so it has to wait for ever"));
  }
  if (process) {
    ::kill(*process, SIGKILL);
  }
  if (stopped) {
    child.userfault.wake(place, kPageBytes);
  }
  return true;
}

// Children that have ended, or have become other programs, need nothing any more. Their memory is
// gone then, and says so.
void ForkServer::forget_ended_children() {
  // A thread that holds the lock may be in a fork, and so wait for us.
  if (!parent_.mutex.try_lock()) {
    return;
  }
  const MutexLock lock(parent_.mutex, std::adopt_lock);
  std::erase_if(children_, [&](const Child& child) {
    if (!is_gone(child)) {
      return false;
    }
    if (child.snapshot) {
      parent_.places.release(*child.snapshot);
    }
    return true;
  });
}

bool ForkServer::is_gone(const Child& child) const {
  char* const last_page = parent_.addresses.base() + parent_.addresses.bytes() - kPageBytes;
  return child.userfault.unprotect(last_page, kPageBytes) == ESRCH;
}

}  // namespace spillway::host
