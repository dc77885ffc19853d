// The line that shows how full the tiers are while a program runs. Layer: front.
#pragma once

#include <string>

namespace spillway {

class RunLive {
 public:
  // folder: where the program's sessions keep their last samples. Shows nothing where standard
  // error is no terminal, or one in whose foreground this process is not.
  explicit RunLive(std::string folder);
  [[nodiscard]] bool shown() const { return shown_; }
  void redraw();
  void clear();

 private:
  std::string folder_;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace spillway
