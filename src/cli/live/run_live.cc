// See run_live.h.
#include "cli/live/run_live.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string_view>

#include "cli/progress.h"
#include "runtime/record/run_records.h"
#include "runtime/report/run_text.h"

namespace spillway {
namespace {

// Sequences of the VT100, which terminals know.
constexpr std::string_view kSaveCursor = "\0337";
constexpr std::string_view kRestoreCursor = "\0338";
// A row more below the cursor, if it is on the last one, which scrolls; the column stays.
constexpr std::string_view kDownAndUp = "\033D\033M";

// With 0 where it is not known.
unsigned terminal_rows() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

std::string emptied(unsigned row) { return fmt::format("\033[{};1H\033[2K", row); }

// At once, so that the program writes before or after it.
void write_out(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

// Not in somebody else's terminal: a job in the background, a kernel of a notebook's server.
RunLive::RunLive(std::string folder)
    : folder_(std::move(folder)),
      shown_(is_drawn_on() && ::tcgetpgrp(STDERR_FILENO) == ::getpgrp()) {}

void RunLive::redraw() {
  constexpr unsigned kRowsAtLeast = 4;
  const unsigned rows = terminal_rows();
  if (rows < kRowsAtLeast) {
    clear();
    return;
  }
  for (const LiveRecord& live : read_live_records(folder_)) {
    if (!live.ended) {
      draw(live_line(live.so_far, terminal_columns()), rows);
      return;
    }
  }
}

void RunLive::draw(const std::string& line, unsigned rows) {
  std::string text;
  if (rows != rows_) {  // new, or of another size
    text += kDownAndUp;
    text += kSaveCursor;
    text += rows_ == 0 ? "" : emptied(rows_);
    text += fmt::format("\033[1;{}r", rows - 1);
    text += kRestoreCursor;
  } else if (line == drawn_) {
    return;
  }
  rows_ = rows;
  drawn_ = line;
  text += kSaveCursor;
  text += emptied(rows) + line;
  text += kRestoreCursor;
  write_out(text);
}

void RunLive::clear() {
  if (rows_ > 0) {
    std::string text(kSaveCursor);
    text += "\033[r" + emptied(rows_);
    text += kRestoreCursor;
    write_out(text);
    rows_ = 0;
  }
}

}  // namespace spillway
