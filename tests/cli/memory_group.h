// A control group with a memory limit, of whichever version this machine has, for programs that a
// test starts.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"

namespace spillway::test {

class MemoryGroup {
 public:
  // nullptr where this process may make none, or the memory controller is not to be had.
  static std::unique_ptr<MemoryGroup> make(Bytes limit_bytes) {
    for (const std::filesystem::path& parent : parents()) {
      const std::filesystem::path folder = parent / fmt::format("spillway-test-{}", ::getpid());
      std::error_code error;
      if (!std::filesystem::create_directory(folder, error)) {
        continue;
      }
      std::unique_ptr<MemoryGroup> group(new MemoryGroup(folder));
      for (const char* const limit : {"memory.max", "memory.limit_in_bytes"}) {
        if (std::filesystem::exists(folder / limit) && group->write(limit, limit_bytes)) {
          (void)group->write("memory.swap.max", 0);
          return group;
        }
      }
    }
    return nullptr;
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  ~MemoryGroup() {
    std::error_code error;
    // Its last process may take a moment to be gone.
    for (int tries = 0; tries < 100; ++tries) {
      if (std::filesystem::remove(folder_, error)) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // For a shell, which is in the group from then on.
  [[nodiscard]] std::string enter() const {
    return fmt::format("echo $$ > '{}' && ", (folder_ / "cgroup.procs").string());
  }
  [[nodiscard]] std::string name() const { return folder_.filename().string(); }
  // Processes that the kernel has ended because of the limit.
  [[nodiscard]] unsigned killed() const {
    for (const char* const file : {"memory.events", "memory.oom_control"}) {
      std::ifstream words(folder_ / file);
      for (std::string word; words >> word;) {
        unsigned count = 0;
        if (word == "oom_kill" && words >> count) {
          return count;
        }
      }
    }
    return 0;
  }

 private:
  explicit MemoryGroup(std::filesystem::path folder) : folder_(std::move(folder)) {}
  [[nodiscard]] bool write(const char* file, Bytes bytes) const {
    return static_cast<bool>((std::ofstream(folder_ / file) << bytes).flush());
  }
  // Where one may be made. In version 2 a group that has processes gives its controllers to no
  // other, so the one above it is tried as well.
  static std::vector<std::filesystem::path> parents() {
    std::vector<std::filesystem::path> found;
    std::ifstream mounts("/proc/self/mounts");
    for (std::string line; std::getline(mounts, line);) {
      std::istringstream words(line);
      std::string source;
      std::string folder;
      std::string kind;
      std::string options;
      words >> source >> folder >> kind >> options;
      const bool memory = kind == "cgroup2" || ("," + options + ",").find(",memory,") < line.size();
      if ((kind != "cgroup" && kind != "cgroup2") || !memory) {
        continue;
      }
      const std::filesystem::path own = folder + own_group(kind == "cgroup2");
      found.push_back(own);
      if (kind == "cgroup2" && own != std::filesystem::path(folder)) {
        found.push_back(own.parent_path());
      }
    }
    return found;
  }
  static std::string own_group(bool version_2) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const bool is_it = version_2 ? line.starts_with("0::") : line.find(":memory:") < line.size();
      if (is_it) {
        return line.substr(line.rfind(':') + 1);
      }
    }
    return {};
  }

  std::filesystem::path folder_;
};

}  // namespace spillway::test
