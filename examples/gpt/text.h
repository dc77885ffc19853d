// The bytes that the model learns to continue. Layer: example.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels.h"

namespace gpt {

class Text {
 public:
  // The files one after the other; throws std::runtime_error with a line about one that cannot be
  // read or is shorter than a sequence.
  Text(const std::vector<std::string>& files, Index context, std::uint64_t seed);

  // Sequences from anywhere in the text, and for each byte the one that follows.
  void next(std::vector<int>& tokens, std::vector<int>& targets, Index batch);

 private:
  std::string bytes_;
  std::size_t context_;
  std::mt19937_64 random_;
};

// The project's own documentation, in a fixed order. Empty where it is not beside the sources.
[[nodiscard]] std::vector<std::string> default_text();

}  // namespace gpt
