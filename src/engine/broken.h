// How a part of the engine says that an invariant of its own does not hold. Layer: engine.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "base/units.h"

namespace spillway {

[[nodiscard]] inline tl::unexpected<Error> broken(std::string_view what) {
  return make_error(ErrorCode::kDefect, "invariant broken: {}", what);
}
[[nodiscard]] inline tl::unexpected<Error> broken(BlockId id, std::string_view what) {
  return make_error(ErrorCode::kDefect, "invariant broken: block {}: {}", id, what);
}
// A counter of bytes beside their sum over what it counts.
[[nodiscard]] inline tl::unexpected<Error> broken_sum(std::string_view what, Bytes counted,
                                                      Bytes sum) {
  return make_error(ErrorCode::kDefect, "invariant broken: {}: counted {}, the sum is {}", what,
                    counted, sum);
}

}  // namespace spillway
