// How much more memory this process may have before the kernel ends somebody for it: of the
// machine, and of each control group that it is in. Layer: platform, common.
// docs/cuda.md, "Little host memory". Swap does not count: what is pinned never goes there.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace spillway {

// Of whom has least to give: the machine, or a control group.
struct MemoryRoom {
  Bytes limit_bytes = 0;  // what there is in all
  Bytes left_bytes = 0;   // could be had now
  bool is_group = false;  // a control group has least
  std::string whose;      // "this machine", "control group /a/b"

  // Stays for the program itself, which grows, and is ended where it cannot.
  [[nodiscard]] static Bytes kept_bytes(Bytes limit_bytes);
  [[nodiscard]] Bytes kept_bytes() const { return kept_bytes(limit_bytes); }
  // What may be promised to somebody beside the program's own needs; and what may be taken to keep
  // such a promise, although the program has grown since.
  [[nodiscard]] Bytes to_promise_bytes() const { return beyond(kept_bytes()); }
  [[nodiscard]] Bytes to_take_bytes() const { return beyond(kept_bytes() / 2); }
  // "5 GiB of the 16 GiB of this machine are left".
  [[nodiscard]] std::string text() const;
  // "..., of which 2 GiB stay for the program itself".
  [[nodiscard]] std::string text_with_kept() const;

 private:
  [[nodiscard]] Bytes beyond(Bytes kept) const {
    return left_bytes - (left_bytes < kept ? left_bytes : kept);
  }
};

class MemoryLimits {
 public:
  // Finds the control groups of this process, which it is expected to stay in. `root` stands before
  // all paths (/proc and the places where control groups are mounted).
  explicit MemoryLimits(std::string root = "");

  // As it is now: reads a file or three for each group. Of a control group that cannot be read
  // nothing is known, and it counts as none. Any thread's.
  [[nodiscard]] MemoryRoom room() const;

 private:
  struct Group {
    std::string folder;  // with `root`
    std::string name;
    bool version_1 = false;
  };
  void find_groups();
  void add_groups(const std::string& mounted, const std::string& path, bool version_1);

  std::string root_;
  std::vector<Group> groups_;  // from its own up
};

}  // namespace spillway
