// See memory_room.h.
#include "platform/common/process/memory_room.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace spillway {
namespace {

// Empty where it cannot be read. The program may start others at any time, so they are not to have
// the file as well.
std::string text_of(const std::string& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return text;
  }
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = ::read(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  ::close(file);
  return text;
}

std::optional<Bytes> number_in(std::string_view text) {
  Bytes number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;  // "max" is none
}

// "name: 12 kB" and "name 12", a line each; 0 where there is no such line.
Bytes field_of(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with(name) && line.size() > name.size() &&
        (line[name.size()] == ' ' || line[name.size()] == ':')) {
      line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
      return number_in(line).value_or(0);
    }
  }
  return 0;
}

// As mountinfo writes paths: \040 is a space.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool has_word(std::string_view list, std::string_view word) {
  while (true) {
    const std::size_t end = list.find(',');
    if (list.substr(0, end) == word) {
      return true;
    }
    if (end == std::string_view::npos) {
      return false;
    }
    list.remove_prefix(end + 1);
  }
}

// Where the memory of control groups is to be seen: which part of the hierarchy lies there.
struct Mount {
  std::string folder;
  std::string root;
  bool version_1 = false;
};

std::optional<Mount> mount_in(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  Mount mount;
  for (int i = 0; i < 3; ++i) words >> word;
  words >> mount.root >> mount.folder;
  while (words >> word && word != "-") {
  }
  std::string kind;
  std::string source;
  std::string options;
  words >> kind >> source >> options;
  mount.root = unescaped(mount.root);
  mount.folder = unescaped(mount.folder);
  mount.version_1 = kind == "cgroup";
  const bool memory = kind == "cgroup2" || (kind == "cgroup" && has_word(options, "memory"));
  return memory ? std::optional(mount) : std::nullopt;
}

// The group of this process in that hierarchy: "4:memory:/a/b", "0::/a/b".
std::optional<std::string> own_group(const std::string& groups, bool version_1) {
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string_view controllers(line.data() + first + 1, second - first - 1);
    if (version_1 ? has_word(controllers, "memory") : controllers.empty()) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

bool is_folder(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

std::optional<MemoryRoom> room_of(const std::string& folder, bool version_1) {
  constexpr Bytes kNoLimit = Bytes{1} << 60U;  // version 1 writes a number where there is none
  const auto number = [&](const char* name) { return number_in(text_of(folder + name)); };
  Bytes limit_bytes =
      number(version_1 ? "/memory.limit_in_bytes" : "/memory.max").value_or(kNoLimit);
  if (!version_1) {
    // Beyond this the kernel only slows the group down, until nothing in it runs any more.
    limit_bytes = std::min(limit_bytes, number("/memory.high").value_or(kNoLimit));
  }
  if (limit_bytes >= kNoLimit) {
    return std::nullopt;
  }
  const Bytes used_bytes =
      number(version_1 ? "/memory.usage_in_bytes" : "/memory.current").value_or(0);
  const std::string stat = text_of(folder + "/memory.stat");
  const auto field = [&](const char* old_name, const char* name) {
    return field_of(stat, version_1 ? old_name : name);
  };
  const Bytes of_files_bytes =
      field("total_inactive_file", "inactive_file") + field("total_active_file", "active_file");
  const Bytes unwritten_bytes =
      field("total_dirty", "file_dirty") + field("total_writeback", "file_writeback");
  const Bytes in_use_bytes = used_bytes - std::min(used_bytes, of_files_bytes) +
                             std::min({used_bytes, of_files_bytes, unwritten_bytes});
  return MemoryRoom{.limit_bytes = limit_bytes,
                    .left_bytes = limit_bytes - std::min(limit_bytes, in_use_bytes),
                    .is_group = true,
                    .whose = {}};
}

}  // namespace

Bytes MemoryRoom::kept_bytes(Bytes limit_bytes) {
  constexpr Bytes kPart = 8;
  return std::min(limit_bytes / kPart, 8 * kGiB);
}

std::string MemoryRoom::text() const {
  return fmt::format("{} of the {} of {} are left", format_bytes(left_bytes),
                     format_bytes(limit_bytes), whose);
}

std::string MemoryRoom::text_with_kept() const {
  return fmt::format("{}, of which {} stay for the program itself", text(),
                     format_bytes(std::min(kept_bytes(), left_bytes)));
}

MemoryLimits::MemoryLimits(std::string root) : root_(std::move(root)) { find_groups(); }

void MemoryLimits::find_groups() {
  const std::string own = text_of(root_ + "/proc/self/cgroup");
  std::istringstream lines(text_of(root_ + "/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::optional<Mount> mount = mount_in(line);
    if (!mount) {
      continue;
    }
    std::optional<std::string> path = own_group(own, mount->version_1);
    if (!path) {
      continue;
    }
    // A container sees its own part alone, and may be told of its place in the whole.
    if (mount->root != "/" && path->starts_with(mount->root)) {
      *path = path->substr(mount->root.size());
    }
    const std::string folder = root_ + mount->folder;
    add_groups(folder, is_folder(folder + *path) ? *path : "/", mount->version_1);
  }
}

void MemoryLimits::add_groups(const std::string& mounted, const std::string& path, bool version_1) {
  for (std::string name = path;; name.resize(name.rfind('/'))) {
    while (name.ends_with('/')) {
      name.pop_back();
    }
    groups_.push_back(
        {.folder = mounted + name, .name = name.empty() ? "/" : name, .version_1 = version_1});
    if (name.find('/') == std::string::npos) {
      return;
    }
  }
}

MemoryRoom MemoryLimits::room() const {
  const std::string machine = text_of(root_ + "/proc/meminfo");
  MemoryRoom least{.limit_bytes = field_of(machine, "MemTotal") * kKiB,
                   .left_bytes = field_of(machine, "MemAvailable") * kKiB,
                   .is_group = false,
                   .whose = "this machine"};
  for (const Group& group : groups_) {
    std::optional<MemoryRoom> room = room_of(group.folder, group.version_1);
    if (room && (room->to_promise_bytes() < least.to_promise_bytes() ||
                 (room->to_promise_bytes() == least.to_promise_bytes() &&
                  room->left_bytes < least.left_bytes))) {
      room->whose = "control group " + group.name;
      least = *std::move(room);
    }
  }
  return least;
}

}  // namespace spillway
