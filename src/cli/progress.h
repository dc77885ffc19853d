// A line on standard error that shows how far a long run is. Layer: cli.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace spillway {

// "[#####.....] 12/63 simulations, 0:42, about 2:55 left", cut to `columns`. Nothing is promised
// about the time that is left before something is done.
[[nodiscard]] std::string progress_line(std::size_t done, std::size_t total, double elapsed_s,
                                        std::size_t columns);

// Of the terminal that standard error is; 80 where it is none, or has not said.
[[nodiscard]] std::size_t terminal_columns();
// Whether standard error is a terminal that takes escape sequences, from a person who wants them:
// TERM says which, and is not "dumb", and there is no NO_COLOR.
[[nodiscard]] bool is_drawn_on();

// Where standard error is such a terminal, redraws the line until the object is destroyed, which
// clears it; nothing at all where it is not. While it lives, an interrupt (Ctrl-C) or SIGTERM
// clears the line before it ends the program. One at a time.
class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Safe to call from any thread.
  void set_done(std::size_t done);

 private:
  void redraw_until_stopped(const std::stop_token& stop);

  const std::size_t total_;
  const bool shown_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t done_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;  // last: it uses what is above
};

}  // namespace spillway
