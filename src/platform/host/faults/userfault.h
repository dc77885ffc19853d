// The kernel's userfaultfd: page faults of this process handled by this process.
// Layer: platform, host. Thin: a method is an ioctl, and says what has become of it in the end. A
// descriptor may be used by several threads at once.
#pragma once

#include <linux/userfaultfd.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/process/descriptor.h"

namespace spillway::host {

// What the kernel can do for this process.
struct UserfaultSupport {
  bool opens = false;          // a descriptor can be opened
  bool kernel_faults = false;  // faults of system calls on our memory are reported as well
  bool write_protection = false;
  bool fork_events = false;
  bool moves = false;  // pages can be moved instead of copied
  std::string reason;  // why not, and what to do about it; empty if all is well
};
[[nodiscard]] UserfaultSupport userfault_support();

class Userfault {
 public:
  // Non-blocking, close-on-exec. Fails with kUnsupported and what to do: the sysctl, the device
  // node, the capability.
  static Result<Userfault> open();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Whether a fork of this process is reported, with a descriptor for the child's memory.
  [[nodiscard]] bool reports_forks() const { return reports_forks_; }
  // Whether `move` works (Linux 6.8).
  [[nodiscard]] bool moves() const { return moves_; }

  // Both missing pages and writes to protected ones are reported from now on.
  Status watch(void* start, Bytes bytes) const;
  // Pages may be moved there as well; nothing is reported of memory that is never protected.
  Status admit(void* start, Bytes bytes) const;

  // Each of these covers whole pages and wakes threads that wait there, unless it says otherwise.
  // Fills missing pages with a copy, write-protected or not; wakes nobody. An error number: 0, or
  // ENOMEM, for a process's own memory only if the system has had none for a second.
  [[nodiscard]] int copy(void* to, const void* from, Bytes bytes, bool writable) const;
  // Fills missing pages with zeros; wakes nobody.
  [[nodiscard]] int zero(void* start, Bytes bytes) const;
  // Missing pages end whoever touches them, by SIGBUS; wakes nobody. EINVAL before Linux 6.6.
  [[nodiscard]] int poison(void* start, Bytes bytes) const;
  // The pages at `from` are those at `to` from now on; none may be at `to` before. Nothing is
  // copied, nobody is woken. What was protected may still be so, what was not is writable. All of
  // it or nothing: after an error number the pages are where they were, maybe without their
  // protection. Both must be watched or admitted.
  [[nodiscard]] int move(void* to, void* from, Bytes bytes) const;
  // Likewise, but what has been moved when a page is refused stays there: returns how many bytes,
  // from the beginning on. An error number if that is not all.
  [[nodiscard]] Bytes move_on(void* to, void* from, Bytes bytes, int& error) const;
  [[nodiscard]] int protect(void* start, Bytes bytes) const;  // wakes nobody
  [[nodiscard]] int unprotect(void* start, Bytes bytes) const;
  void wake(void* start, Bytes bytes) const;

  // What has happened since the last call, at most events.size(). 0 if nothing has.
  [[nodiscard]] std::size_t read(std::span<uffd_msg> events) const;

  // For the descriptor of a child, which a fork event brings. While the child forks itself the
  // kernel refuses everything until that event has been read, by who would wait for it: EAGAIN.
  static Userfault of_child(int fd) { return {Descriptor(fd), false, false, false}; }

 private:
  Userfault(Descriptor fd, bool reports_forks, bool moves, bool patient)
      : fd_(std::move(fd)), reports_forks_(reports_forks), moves_(moves), patient_(patient) {}
  // Whether a call that the kernel has refused for the moment is to be made again.
  [[nodiscard]] bool again(int error) const;
  [[nodiscard]] int write_protect(void* start, Bytes bytes, std::uint64_t mode) const;
  Status watch(void* start, Bytes bytes, std::uint64_t mode) const;
  static std::uint64_t address_of(const void* pointer);
  // An ioctl. Ends the run where the program has closed the descriptor.
  int call(unsigned long request, void* argument) const;
  int move_some(void* to, void* from, Bytes bytes, Bytes& counted_bytes) const;
  void move_back(char* to, char* from, Bytes bytes) const;
  Descriptor fd_;
  bool reports_forks_ = false;
  bool moves_ = false;
  bool patient_ = true;  // somebody else reads the events
};

}  // namespace spillway::host
