// What the fuzz targets share: a breach of the readers' contract ends the target, so that libFuzzer
// keeps the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../tests/trace/reader_contract.h"

namespace spillway::fuzz {

// As what libFuzzer hands over, for as long as the call of the target lasts.
inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void insist(const std::string& breach) {
  if (!breach.empty()) {
    std::fprintf(stderr, "%s\n", breach.c_str());
    std::abort();
  }
}

}  // namespace spillway::fuzz
