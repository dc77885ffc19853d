// Forks of the program: what is kept for the children, and their faults. See child_snapshots.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/host/host_platform.h"

namespace spillway::host {

void HostPlatform::before_fork() {
  mutex_.lock();
  // What moves now would be neither here nor there for the child.
  std::unique_lock lock(mutex_, std::adopt_lock);
  forking_ = true;
  idle_.wait(lock, [&] { return engine_.transfers_in_flight() == 0; });
  lock.release();
  inherit_unused_addresses(false);
  if (!userfault_.reports_forks()) {
    return;
  }
  Snapshot snapshot;
  const Space& space = engine_.space();
  for (BlockId id = 0; id < space.block_slots(); ++id) {
    const Block& block = space.block(id);
    if (block.tenants == 0 || block.contents != Contents::kLive ||
        block.copies.has(Tier::kDevice)) {
      continue;
    }
    const Place& at = place(id);
    KeptPlace kept{.bytes = block.bytes};
    if (block.copies.has(Tier::kHost)) {
      kept.host = at.host;
      kept_in_host_.keep(at.host);
    } else {
      kept.storage = at.storage;
      kept_in_storage_.keep(at.storage);
    }
    snapshot.emplace(id, kept);
  }
  const std::scoped_lock events(events_mutex_);
  next_snapshot_ = std::move(snapshot);
}

void HostPlatform::after_fork() {
  forking_ = false;
  std::optional<Snapshot> unused;
  {
    // The fork goes on as soon as its event has been read; who read it may not have come to it.
    const std::scoped_lock events(events_mutex_);
    unused = std::exchange(next_snapshot_, {});  // the fork has failed, or nobody reports it
  }
  if (unused) {
    release(*unused);
  }
  inherit_unused_addresses(true);
  mutex_.unlock();
  wake_correlator();
}

// A child that limits its address space (RLIMIT_AS) should not find it spent on what it will never
// use. With the lock held.
void HostPlatform::inherit_unused_addresses(bool inherit) {
  const Bytes used_bytes = offset_of(static_cast<BlockId>(engine_.space().block_slots()));
  if (userfault_.reports_forks() && used_bytes < address_bytes_) {
    ::madvise(base_ + used_bytes, address_bytes_ - used_bytes,
              inherit ? MADV_DOFORK : MADV_DONTFORK);
  }
}

// With the lock held.
void HostPlatform::release(const Snapshot& snapshot) {
  for (const auto& [id, kept] : snapshot) {
    if (kept.host != kNoPlace && kept_in_host_.unkeep(kept.host)) {
      host_slots_.give_back(kept.host, kept.bytes);
    }
    if (kept.storage != kNoPlace && kept_in_storage_.unkeep(kept.storage)) {
      storage_slots_.give_back(kept.storage, kept.bytes);
    }
  }
}

// With the lock of events held: a snapshot that is there is the one of this fork.
void HostPlatform::adopt_child(int fd) {
  children_.push_back({.userfault = Userfault::of_child(fd),
                       .snapshot = std::exchange(next_snapshot_, std::nullopt)});
}

void HostPlatform::serve_child(Child& child) {
  std::array<uffd_msg, 16> events{};
  const std::size_t count = child.userfault.read(events);
  for (std::size_t i = 0; i < count; ++i) {
    if (events[i].event == UFFD_EVENT_FORK) {
      // A grandchild sees what the child sees.
      children_.push_back(
          {.userfault = Userfault::of_child(static_cast<int>(events[i].arg.fork.ufd)),
           .snapshot = child.snapshot});
      if (child.snapshot) {
        keep_again(*child.snapshot);
      }
      return;  // `child` may have moved
    }
    if (events[i].event == UFFD_EVENT_PAGEFAULT) {
      answer_child(child, events[i].arg.pagefault);
    }
  }
}

void HostPlatform::keep_again(const Snapshot& snapshot) {
  for (const auto& [id, kept] : snapshot) {
    if (kept.host != kNoPlace) {
      kept_in_host_.keep(kept.host);
    } else {
      kept_in_storage_.keep(kept.storage);
    }
  }
}

void HostPlatform::answer_child(Child& child, const PageFault& fault) {
  const std::uint64_t offset = fault.address - reinterpret_cast<std::uint64_t>(base_);  // NOLINT
  const auto id = static_cast<BlockId>(offset / kBlockBytes);
  char* const start = base_ + offset_of(id);
  if ((fault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0) {
    if (child.userfault.unprotect(start, kBlockBytes) != 0) {
      child.userfault.wake(start, kBlockBytes);  // it is ending
    }
    return;
  }
  if (!child.snapshot) {
    end_stranger(static_cast<pid_t>(fault.feat.ptid));
    return;
  }
  const auto kept = child.snapshot->find(id);
  int error = 0;
  if (kept == child.snapshot->end()) {
    // Nothing was there when it was born: zeros, page by page, as others may be there already.
    error = child.userfault.zero(base_ + offset / kPageBytes * kPageBytes, kPageBytes);
  } else if (kept->second.host != kNoPlace) {
    error = child.userfault.copy(start, host_arena_ + kept->second.host, kept->second.bytes, true);
  } else if (storage_) {
    char* const staging = staging_.take();
    error = staging == nullptr ? ENOMEM : 0;
    Bytes done = 0;
    while (done < kept->second.bytes && error == 0) {
      const ssize_t got = ::pread(storage_->fd(), staging + done, kept->second.bytes - done,
                                  static_cast<off_t>(kept->second.storage + done));
      error = got < 0 ? errno : got == 0 ? EIO : 0;
      done += got > 0 ? static_cast<Bytes>(got) : 0;
    }
    if (error == 0) {
      error = child.userfault.copy(start, staging, kept->second.bytes, true);
    } else {
      fatal({ErrorCode::kIo,
             "a child of the program cannot read its memory: " +
                 io_error_text(false, kept->second.bytes, kept->second.storage, error)});
    }
    if (staging != nullptr) {
      staging_.give_back(staging);
    }
  }
  if (error == 0 || error == EEXIST) {
    child.userfault.wake(start, kBlockBytes);
  }
}

// Nobody noted what was where when it was made: it must not go on with zeros.
void HostPlatform::end_stranger(pid_t process) {
  options_.warn(
      fmt::format("process {} uses memory of the program that made it, and was not made by fork(); "
                  "ending it, as it would see wrong bytes",
                  process));
  ::kill(process, SIGKILL);
}

// Children that have ended, or have become other programs, need nothing any more. Their memory is
// gone then, and says so.
void HostPlatform::forget_ended_children() {
  // A thread that holds the lock may be in a fork, and so wait for us.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    return;
  }
  std::erase_if(children_, [&](const Child& child) {
    if (child.userfault.unprotect(base_ + address_bytes_ - kPageBytes, kPageBytes) != ESRCH) {
      return false;
    }
    if (child.snapshot) {
      release(*child.snapshot);
    }
    return true;
  });
}

}  // namespace spillway::host
