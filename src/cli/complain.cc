// See complain.h.
#include "cli/complain.h"

#include <fmt/format.h>

#include <cstdio>

namespace spillway {

int complain(const Error& error) {
  fmt::print(stderr, "spillway: {}\n", error.message);
  return error.code == ErrorCode::kInvalidInput ? 2 : 1;
}

}  // namespace spillway
