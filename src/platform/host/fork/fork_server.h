// What the children of a fork find at the program's addresses. Layer: platform, host.
// A child shares the pages that reside when it is made, as after any fork. For the blocks that do
// not, it stops at a fault like its parent, and the parent answers with the bytes of the moment of
// the fork: their places below are kept for as long as a child may ask for them. Children move
// nothing themselves. They have a thread of the parent's to themselves, which may wait for the
// disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "engine/memory/space.h"
#include "platform/common/failures.h"
#include "platform/common/lower_places.h"
#include "platform/common/process/descriptor.h"
#include "platform/common/process/service_thread.h"
#include "platform/common/process/undisturbed_mutex.h"
#include "platform/common/storage/staging_pool.h"
#include "platform/common/storage/storage_io.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/fork/child_links.h"
#include "platform/host/pages/address_space.h"
#include "platform/host/pages/device_pages.h"

namespace spillway::host {

class ForkServer {
 public:
  // What it serves children from. All of it must outlive it.
  struct Parent {
    UndisturbedMutex& mutex;  // the platform's
    const Userfault& userfault;
    const AddressSpace& addresses;
    const DevicePages& pages;
    LowerPlaces& places;
    const char* host_memory;
    StorageIo* storage;  // nullptr: none
    StagingPool& staging;
    Failures& failures;
    std::function<void(std::string_view)> warn;
  };
  explicit ForkServer(Parent parent);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Around a fork, with the platform's lock held, while nothing moves.
  void before_fork(const Space& space);
  void after_fork();
  // In the child, and in its own children: sees to it that a parent that is killed leaves no zeros.
  void in_child();
  // What of the addresses a child inherits; without fork events it inherits them as a hole.
  [[nodiscard]] Bytes inherited_bytes() const { return used_bytes_; }

  // Children get all that they have not asked for yet, and need nobody any more: returns when they
  // have it. One that cannot take it for ten seconds, as at its memory limit, is given up with a
  // line, and is ended by its own thread as soon as this process has. Not by the thread that reads
  // events.
  void give_all();

  // The parent's events, as Userfault::read; children that they tell of are served from then on.
  // One thread's at a time, which needs no lock.
  std::size_t read(const Userfault& userfault, std::span<uffd_msg> events);
  // That the thread has run on a processor.
  [[nodiscard]] TimeNs processor_ns() const { return spillway::processor_ns(thread_); }

 private:
  using PageFault = decltype(uffd_msg::arg.pagefault);
  struct Child {
    Userfault userfault;
    std::optional<Snapshot> snapshot;        // nullopt: it was made behind our back
    char* probe = nullptr;                   // the pages by which it asks (child_links.h)
    std::vector<PageFault> unanswered = {};  // that could not be for the moment
    pid_t process = 0;                       // 0: not known
    bool linked = false;                     // it has its descriptor as well
    TimeNs wants_all_since_ns = 0;           // 0: it has not asked for all
    bool told_of = false;                    // that it has been ended, or given up
  };
  void inherit_addresses_behind(Bytes used_bytes, bool inherit);
  void serve_until_stopped();
  void take_new_children();
  void serve(Child& child);
  void adopt_grandchild(const Child& child, int fd);
  [[nodiscard]] bool answer(Child& child, const PageFault& fault);
  static int fill(const Child& child, char* start, const char* from, Bytes bytes);
  int fill_from_below(const Child& child, char* start, const KeptPlace& kept);
  [[nodiscard]] bool end_stranger(Child& child, const PageFault& fault);
  [[nodiscard]] bool answer_probe(Child& child, std::uint32_t page);
  [[nodiscard]] bool still_links(const Child& child) const SPILLWAY_REQUIRES(giving_mutex_);
  [[nodiscard]] bool is_gone(const Child& child) const;
  [[nodiscard]] char* probe() const { return parent_.addresses.base() + used_bytes_; }
  bool fill_all(const Child& child);
  bool give_rest(Child& child) SPILLWAY_REQUIRES(giving_mutex_);
  bool give_rest_to_all() SPILLWAY_REQUIRES(giving_mutex_);
  void give_up(Child& child) const;
  void forget_ended_children();

  Parent parent_;
  Bytes used_bytes_ = 0;           // of addresses, at the last fork
  bool parent_is_needed_ = false;  // the child of that fork has memory elsewhere
  bool has_all_ = false;           // and has got it; the child's
  ChildLinks links_;               // the serving thread's
  Mutex events_mutex_;             // from reading the kernel's events to having noted new children
  // For the child that is being made.
  std::optional<Snapshot> next_snapshot_ SPILLWAY_GUARDED_BY(events_mutex_);
  std::list<Child> new_children_ SPILLWAY_GUARDED_BY(events_mutex_);
  std::list<Child> children_;  // the serving thread's
  std::atomic<bool> stop_{false};
  Mutex giving_mutex_;
  std::condition_variable given_;
  bool give_all_ SPILLWAY_GUARDED_BY(giving_mutex_) = false;
  // How long who gives all waits for children to ask.
  TimeNs link_until_ns_ SPILLWAY_GUARDED_BY(giving_mutex_) = 0;
  TimeNs give_until_ns_ SPILLWAY_GUARDED_BY(giving_mutex_) = 0;  // and for them to take it
  Descriptor wake_event_;
  std::thread thread_;
};

}  // namespace spillway::host
