// Texts for people, kept in files beside the tests: what is printed is compared with them word by
// word, and whoever changes a text sees all that changes. SPILLWAY_TEST_GOLDEN=write before the
// test program writes the files instead. What differs from machine to machine is left out of both.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "cli/program.h"

namespace spillway::test {

// Every size that a line calls a default or this machine's own, versions, and where we are.
inline std::string without_this_machine(std::string text, const std::string& folder) {
  const auto replace_all = [&text](const std::string& what, const std::string& with) {
    for (std::size_t at = text.find(what); !what.empty() && at != std::string::npos;
         at = text.find(what, at + with.size())) {
      text.replace(at, what.size(), with);
    }
  };
  replace_all(folder, "FOLDER");
  replace_all(std::filesystem::path(SPILLWAY_PROGRAM).parent_path().string(), "BUILD");
  const std::string size = "[0-9.]+ [KMGT]?i?B";
  const auto generalize = [&text](const std::string& pattern, const std::string& with) {
    text = std::regex_replace(text, std::regex(pattern), with);
  };
  generalize("this machine's own memory \\(" + size, "this machine's own memory (SIZE");
  generalize("this machine has, " + size, "this machine has, SIZE");
  generalize(size + " of host memory \\(default", "SIZE of host memory (default");
  generalize(size + " of device memory \\(default: three", "SIZE of device memory (default: three");
  generalize("CUDA [0-9.]+", "CUDA N");
  return text;
}

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/cli/golden" / (name + ".txt");
  const char* const wish = std::getenv("SPILLWAY_TEST_GOLDEN");
  if (wish != nullptr && std::string(wish) == "write") {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  EXPECT_EQ(read_file(file), text)
      << file << ": SPILLWAY_TEST_GOLDEN=write writes it; then read what has changed";
}

}  // namespace spillway::test
