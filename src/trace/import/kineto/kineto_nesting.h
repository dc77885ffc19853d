// Which operator is inside which, by thread and time. Layer: trace.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/import/kineto/kineto_file.h"

namespace spillway {

// What surrounds an operator. Indices are those of KinetoFile::operators.
struct KinetoPlace {
  static constexpr std::uint32_t kNone = ~0U;

  std::uint32_t outermost = kNone;  // the outermost operator of a library around it, or itself
  std::int64_t backward = -1;       // sequence number, where autograd's engine runs it
  bool in_optimizer = false;
};

// For each operator. Annotations and nodes of autograd surround operators and are none themselves:
// their `outermost` is kNone unless an operator surrounds them.
[[nodiscard]] std::vector<KinetoPlace> places_of(const KinetoFile& file);

}  // namespace spillway
