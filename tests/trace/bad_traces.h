// Trace files that are wrong in one way each, with what a reader must say. The seeds of the fuzz
// corpus too.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct BadTrace {
  std::string name;     // of the file in the corpus
  std::string bytes;    // of the file
  std::string message;  // all of it; the file is called "t"
};

std::vector<BadTrace> bad_native_traces();
std::vector<BadTrace> bad_kernel_traces();

}  // namespace spillway
