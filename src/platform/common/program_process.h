// What happens to the process whose memory a platform has: it forks, ends, and lets others reach
// its memory. Layer: platform, common. This class does nothing; platforms override what they
// need.
#pragma once

#include <vector>

namespace spillway {

class ProgramProcess {
 public:
  ProgramProcess() = default;
  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;
  virtual ~ProgramProcess() = default;

  // Around a fork() by this thread, in the parent: in between nothing moves, so that the child
  // finds all memory as it was.
  virtual void before_fork() {}
  virtual void after_fork() {}
  // In the child, and in its own children, before anything else is asked of it there:
  // ProgramPlatform::contains tells from now on what the child has inherited; all other addresses
  // are its own. Nothing but that may be asked.
  virtual void in_child() {}
  // This process is about to end, or to become another program: children get what they may still
  // ask for. Not by one of the program's threads.
  virtual void before_end() {}

  // The program has told the kernel to go on reading memory after its calls: what has left must
  // stay as it was for whoever reads it.
  virtual void keep_no_frames() {}
  // The program has opened a way for devices to write its memory past the processor, at any time
  // while they hold it. Whoever comes to hold memory after this returns is noticed by the platform.
  // Also in signal handlers.
  virtual void expect_pins() {}
  // What the program's own threads use in calls to this, and must not lose.
  [[nodiscard]] virtual std::vector<int> descriptors() const { return {}; }
};

}  // namespace spillway
