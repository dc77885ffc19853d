// The command line of the example. Layer: example.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model.h"

namespace gpt {

struct TrainOptions {
  Shape shape;
  int steps = 10;
  std::uint64_t seed = 1;
  std::vector<std::string> text;  // files; none: the project's documentation
  bool unlimited = false;         // plain memory
  // The rest is Spillway's; what is empty keeps the default. Sizes are "100MiB" or plain bytes.
  std::string device_memory;
  std::string host_memory;
  std::string storage;  // PATH[:SIZE]
  std::string policy;
  std::string link_bandwidth;  // bytes a second
  std::string losses;          // a file to write
  bool json = false;
  bool help = false;
};

// Throws std::invalid_argument with one line.
[[nodiscard]] TrainOptions parse_options(const std::vector<std::string>& arguments);
[[nodiscard]] const char* usage();
// What a space is made from. Throws like parse_options, and spillway::Error. `storage` keeps the
// text that the result points into.
[[nodiscard]] spillway::Options space_options(const TrainOptions& options, std::string& storage);

}  // namespace gpt
