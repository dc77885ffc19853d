// What keeps a child from zeros when its parent is killed. Layer: platform, host.
// Faults of a child are reported through a descriptor that the kernel gives to its parent, and once
// nobody has that open, what was to be served is zeros. So a child whose memory is in part
// elsewhere has the descriptor open as well: a thread of the child asks for it through a socket,
// and keeps it until it has been told that the child has all. If the socket ends before that, the
// parent is gone, and the thread ends the child, with a line.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <list>
#include <vector>

#include "platform/common/descriptor.h"

namespace spillway::host {

// Where children ask.
struct LinkAddress {
  sockaddr_un name{};
  socklen_t bytes = 0;        // 0: nowhere
  std::uint64_t network = 0;  // the namespace where this address means something
};

// The parent's ends. By one thread at a time.
class ChildLinks {
 public:
  ChildLinks();

  [[nodiscard]] const LinkAddress& address() const { return address_; }
  // What to wait for before the next `serve`.
  void add_to(std::vector<pollfd>& waits) const;
  // Takes in who has come, and lets go who has gone.
  void serve();
  // The descriptor for the child that says of itself that it is this process. False if it has not
  // asked yet.
  bool give(pid_t process, int userfault);
  // The child with that descriptor needs this process no more.
  void tell_all_is_given(int userfault);

 private:
  struct Link {
    Descriptor socket;
    pid_t process = 0;   // 0: it has not said yet
    int userfault = -1;  // that it has been given; two have one number in namespaces of their own
  };
  Descriptor listening_;
  LinkAddress address_;
  std::list<Link> links_;
};

// In the child of a fork, by its only thread: starts the thread that asks there. `probe` is a page
// of the child's that is not there, nor will be: who serves it learns which process asks. `mark` is
// a page that the parent fills, with anything but zeros, once the child has all: a parent that
// cannot be reached may have ended in good order. Returns when the descriptor is there, or cannot
// be had as the child is in another network namespace; ends the child, with a line, where it cannot
// be had otherwise. `has_all` is set when the parent is needed no more.
void link_to_parent(const LinkAddress& address, char* probe, const char* mark, bool* has_all);

}  // namespace spillway::host
