// See run_live.h.
#include "front/run_live.h"

#include <unistd.h>

#include <cstdio>

#include "front/progress.h"
#include "runtime/run/run_records.h"
#include "runtime/run/run_text.h"

namespace spillway {

// Not in somebody else's terminal: a job in the background, a kernel of a notebook's server.
RunLive::RunLive(std::string folder)
    : folder_(std::move(folder)),
      shown_(::isatty(STDERR_FILENO) == 1 && ::tcgetpgrp(STDERR_FILENO) == ::getpgrp()) {}

void RunLive::redraw() {
  for (const LiveRecord& live : read_live_records(folder_)) {
    if (!live.ended) {
      std::fputs(("\r\033[K" + live_line(live.so_far, terminal_columns())).c_str(), stderr);
      drawn_ = true;
      return;
    }
  }
}

void RunLive::clear() {
  if (drawn_) {
    std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }
}

}  // namespace spillway
