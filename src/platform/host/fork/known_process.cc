// See known_process.h.
#include "platform/host/fork/known_process.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace spillway::host {
namespace {

namespace fs = std::filesystem;

// The numbered folders there: processes, or threads of one.
std::vector<pid_t> numbers_in(const fs::path& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (const pid_t number = std::atoi(name.c_str()); number > 0) {  // NOLINT(cert-err34-c)
      numbers.push_back(number);
    }
  }
  return numbers;
}

// "NSpid: 4711 12 1": its numbers from this namespace inwards to its own.
bool knows_itself_as(pid_t number, const fs::path& thread) {
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("NSpid:")) {
      return std::atoi(line.c_str() + line.find_last_of(" \t") + 1) == number;  // NOLINT
    }
  }
  return false;
}

// "7f0000000000-7f0010000000 rw-p ..."
bool has_memory_at(const void* address, const fs::path& process) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);  // NOLINT(*-reinterpret-cast)
  constexpr int kHexadecimal = 16;
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    char* dash = nullptr;
    const std::uintptr_t start = std::strtoull(line.c_str(), &dash, kHexadecimal);
    if (start <= place && *dash == '-' && place < std::strtoull(dash + 1, nullptr, kHexadecimal)) {
      return true;
    }
  }
  return false;
}

bool is_known_as(pid_t number, const fs::path& process) {
  for (const pid_t thread : numbers_in(process / "task")) {
    if (knows_itself_as(number, process / "task" / std::to_string(thread))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<pid_t> process_known_as(pid_t number, const void* address) {
  std::optional<pid_t> found;
  for (const pid_t process : numbers_in("/proc")) {
    const fs::path folder = fs::path("/proc") / std::to_string(process);
    if (process != ::getpid() && is_known_as(number, folder) && has_memory_at(address, folder)) {
      if (found) {
        return std::nullopt;
      }
      found = process;
    }
  }
  return found;
}

}  // namespace spillway::host
