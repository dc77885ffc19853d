// What a test reads afterwards: rules that were broken, calls, numbers. Fake driver.
// Guarded by World::mutex, like everything in this folder that says nothing else.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "fake_cuda.h"

namespace fake_cuda {

struct Violation {
  FakeCudaViolation kind;
  std::string text;
};

struct Report {
  std::vector<Violation> violations;
  std::vector<std::string> log;
  FakeCudaCounters counters{};

  template <typename... Args>
  void violation(FakeCudaViolation kind, fmt::format_string<Args...> format, Args&&... args) {
    violations.push_back({kind, fmt::format(format, std::forward<Args>(args)...)});
  }
};

}  // namespace fake_cuda
