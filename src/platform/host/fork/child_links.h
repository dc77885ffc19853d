// What keeps a child from zeros when its parent is killed. Layer: platform, host.
// Faults of a child are reported through a descriptor that the kernel gives to its parent, and once
// nobody has that open, what was to be served is zeros. So a child whose memory is in part
// elsewhere has the descriptor open as well: a thread of the child asks for it through a socket,
// and keeps it until it has been told that the child has all. If the socket ends before that, the
// parent is gone, and the thread ends the child, with a line.
// Who asks is known by what it touches: its parent names a page that no other child is asked for,
// and the descriptor that reports a fault there is the one it is to have. Numbers of processes
// would not do: children have the same one where each has a namespace of its own.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "base/units.h"
#include "platform/common/process/descriptor.h"

namespace spillway::host {

// Where children ask.
struct LinkAddress {
  sockaddr_un name{};
  socklen_t bytes = 0;  // 0: nowhere
};

// Pages of a block that no child has, nor will have, but for the first: that is the mark, which the
// parent fills, with anything but zeros, once the child has all. A child that looks at it asks for
// all.
inline constexpr std::uint32_t kMarkPage = 0;
inline constexpr std::uint32_t kProbePages = kBlockBytes / kPageBytes;

// The parent's ends. By one thread at a time.
class ChildLinks {
 public:
  ChildLinks();

  [[nodiscard]] const LinkAddress& address() const { return address_; }
  // What to wait for before the next `serve`.
  void add_to(std::vector<pollfd>& waits) const;
  // Takes in who has come, and lets go who has gone.
  void serve();
  // The descriptor for the child that has been asked to touch this page, whose memory it reports.
  // Its process as this one knows it, 0 if it does not; nullopt if nobody has been asked for that.
  std::optional<pid_t> give(std::uint32_t page, int userfault);
  // The child with that descriptor needs this process no more.
  void tell_all_is_given(int userfault);

 private:
  struct Link {
    Descriptor socket;
    pid_t process = 0;
    std::uint32_t page = kMarkPage;  // that it is to touch; the mark: none
    int userfault = -1;              // that it has been given
  };
  [[nodiscard]] std::uint32_t free_page() const;
  Descriptor listening_;
  LinkAddress address_;
  std::list<Link> links_;
};

// In the child of a fork, by its only thread: starts the thread that asks there. `probe` is where
// those pages begin. Returns when the descriptor is there; where the parent cannot be reached, as
// from another network namespace, when the child has all. Ends the child, with a line, where
// neither is to be had. `has_all` is set when the parent is needed no more.
void link_to_parent(const LinkAddress& address, char* probe, bool* has_all);

}  // namespace spillway::host
