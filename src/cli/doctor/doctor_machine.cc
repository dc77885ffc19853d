// Page faults, cores, memory and limits: what the kernel says of itself and of this process.
// See doctor_checks.h.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "cli/doctor/doctor_checks.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/host_platform.h"
#include "runtime/run/space_options.h"

namespace spillway {
namespace {

std::string first_line_of_file(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<Bytes> number_in(const char* path) {
  std::ifstream file(path);
  Bytes number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

Fact yes_or_no(const char* key, bool yes, const char* text, const char* text_if_not,
               const std::string& advice) {
  return {.key = key,
          .mark = yes ? Mark::kOk : Mark::kMissing,
          .text = yes ? text : text_if_not,
          .advice = yes ? "" : advice,
          .value = yes};
}

Fact cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return {.key = "cores",
          .mark = count > 1 ? Mark::kOk : Mark::kSlow,
          .text = fmt::format("{} {} for this process", count, count == 1 ? "core" : "cores"),
          .advice = count > 1 ? ""
                              : "moving data shares it with the program; if others are kept from "
                                "this process, `taskset -c 0-3 spillway run ...` asks for four",
          .value = count};
}

Fact memory(const MemoryRoom& room) {
  const Bytes available_bytes = room.left_bytes;
  const Bytes all_bytes =
      static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
  return {.key = "memory_bytes",
          .mark = Mark::kOk,
          .text = fmt::format("{} of memory, {} of it available", format_bytes(all_bytes),
                              format_bytes(available_bytes)),
          .advice = "",
          .value = {{"all", all_bytes}, {"available", available_bytes}}};
}

// What a container may use, where that is less than the machine has.
std::optional<Fact> container_limit(const MemoryRoom& room) {
  if (!room.is_group) {
    return std::nullopt;
  }
  return Fact{.key = "container_bytes",
              .mark = Mark::kSlow,
              .text = fmt::format("only {}: budgets keep to that", room.text()),
              .advice = "a larger limit for it lets more be moved to memory",
              .value = room.limit_bytes};
}

Fact huge_pages() {
  constexpr const char* kPath = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string line = first_line_of_file(kPath);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) {
    return {.key = "huge_pages",
            .mark = Mark::kMissing,
            .text = "no huge pages: copies to host memory take longer",
            .advice = "a kernel with CONFIG_TRANSPARENT_HUGEPAGE has them",
            .value = nullptr};
  }
  const std::string mode = line.substr(open + 1, close - open - 1);
  const bool usable = mode == "always" || mode == "madvise";
  return {.key = "huge_pages",
          .mark = usable ? Mark::kOk : Mark::kSlow,
          .text = fmt::format("huge pages: {}", mode),
          .advice = usable ? ""
                           : fmt::format("`echo madvise > {}` as root makes copies to host memory "
                                         "faster",
                                         kPath),
          .value = mode};
}

std::optional<Bytes> limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

nlohmann::ordered_json json_of(const std::optional<Bytes>& limit) {
  return limit ? nlohmann::ordered_json(*limit) : nlohmann::ordered_json(nullptr);
}

Fact locked_memory() {
  constexpr Bytes kRings = 64 * kKiB;  // what io_uring charged before Linux 5.12
  const std::optional<Bytes> limit_bytes = limit_of(RLIMIT_MEMLOCK);
  const bool enough = !limit_bytes || *limit_bytes >= kRings;
  return {.key = "locked_memory_bytes",
          .mark = enough ? Mark::kOk : Mark::kSlow,
          .text = limit_bytes ? fmt::format("{} may be locked", format_bytes(*limit_bytes))
                              : "memory may be locked without a limit",
          .advice = enough ? "" : "`ulimit -l 64` lets io_uring of kernels before 5.12 start",
          .value = json_of(limit_bytes)};
}

Fact overcommit() {
  constexpr Bytes kStrict = 2;
  const std::optional<Bytes> mode = number_in("/proc/sys/vm/overcommit_memory");
  const bool strict = mode == kStrict;
  return {.key = "overcommit",
          .mark = strict ? Mark::kMissing : Mark::kOk,
          .text = strict ? "address space cannot be reserved beyond memory (overcommit mode 2)"
                         : "address space can be reserved beyond memory",
          .advice = strict ? "`sysctl vm.overcommit_memory=0` as root permits it" : "",
          .value = json_of(mode)};
}

Fact address_space(const MemoryRoom& room) {
  const SpaceDefaults budgets = host_defaults(room);
  const Bytes wanted_bytes = host::reserved_address_bytes(
      budgets.device_bytes, budgets.host_bytes_beside(budgets.device_bytes), 0);
  const std::optional<Bytes> limit_bytes = limit_of(RLIMIT_AS);
  const bool enough = !limit_bytes || *limit_bytes >= wanted_bytes;
  return {.key = "address_space_bytes",
          .mark = enough ? Mark::kOk : Mark::kMissing,
          .text = limit_bytes
                      ? fmt::format("a process may have {} of address space, of which Spillway "
                                    "reserves {} if no budgets are given",
                                    format_bytes(*limit_bytes), format_bytes(wanted_bytes))
                      : "address space is not limited",
          .advice = enough ? "" : "`ulimit -v unlimited` lifts the limit for this shell",
          .value = json_of(limit_bytes)};
}

}  // namespace

FactGroup check_page_faults() {
  FactGroup group{.key = "userfaultfd", .title = "Page faults (userfaultfd)", .facts = {}};
  const host::UserfaultSupport support = host::userfault_support();
  group.facts.push_back(yes_or_no("opens", support.opens, "page faults can be handled",
                                  "page faults cannot be handled", support.reason));
  if (!support.opens) {
    return group;
  }
  group.facts.push_back(
      yes_or_no("kernel_faults", support.kernel_faults, "also those inside system calls",
                "but not those inside system calls, such as read() into a buffer", support.reason));
  // Without the permission, what else there would be cannot be found out.
  if (support.kernel_faults) {
    group.facts.push_back(yes_or_no(
        "write_protection", support.write_protection, "first writes can be seen (write protection)",
        "first writes cannot be seen (no write protection)", support.reason));
    group.facts.push_back(yes_or_no(
        "fork_events", support.fork_events, "forks can be seen, so that a child finds its memory",
        "forks cannot be seen: a child must not touch the memory before it runs another program",
        "that takes the capability CAP_SYS_PTRACE: `sudo -E spillway run ...` has it"));
  }
  group.facts.push_back(yes_or_no(
      "moves_pages", support.moves,
      "pages can be moved instead of given back and got again (UFFDIO_MOVE)",
      "pages cannot be moved (UFFDIO_MOVE): each migration also waits for the kernel to find some",
      "Linux 6.8 or newer can: `uname -r` tells which one runs"));
  return group;
}

FactGroup check_machine() {
  const MemoryRoom room = MemoryLimits().room();
  FactGroup group{.key = "machine", .title = "Machine", .facts = {cores(), memory(room)}};
  if (const std::optional<Fact> limit = container_limit(room)) {
    group.facts.push_back(*limit);
  }
  group.facts.insert(group.facts.end(),
                     {huge_pages(), overcommit(), address_space(room), locked_memory()});
  return group;
}

}  // namespace spillway
