// The line that shows how full the tiers are while a program runs. It has the last row of the
// terminal to itself: the program's output scrolls above it, and its cursor stays where it is.
// Layer: cli.
#pragma once

#include <string>

namespace spillway {

class RunLive {
 public:
  // folder: where the program's sessions keep their last samples. Shows nothing where standard
  // error is no terminal that is drawn on, or one in whose foreground this process is not.
  explicit RunLive(std::string folder);
  [[nodiscard]] bool shown() const { return shown_; }
  void redraw();
  // The program's terminal is as it was.
  void clear();

 private:
  void draw(const std::string& line, unsigned rows);

  std::string folder_;
  bool shown_;
  unsigned rows_ = 0;  // of the terminal, as its last row was taken; 0: it is not
  std::string drawn_;
};

}  // namespace spillway
