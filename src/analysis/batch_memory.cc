// See batch_memory.h.
#include "analysis/batch_memory.h"

#include <algorithm>
#include <cmath>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"

namespace spillway {

Result<BatchMemory> BatchMemory::between(const Recording& one, const Recording& other,
                                         Bytes granularity_bytes) {
  const auto same_name = [](const Kernel& a, const Kernel& b) { return a.name == b.name; };
  if (!std::equal(one.trace.kernels.begin(), one.trace.kernels.end(), other.trace.kernels.begin(),
                  other.trace.kernels.end(), same_name)) {
    return make_error(ErrorCode::kUnsupported,
                      "steps with batches of {} and {} are not the same kernels", one.batch,
                      other.batch);
  }
  const MemoryCurve first = memory_curve(one.trace, analyze_vitality(one.trace), granularity_bytes);
  const MemoryCurve second =
      memory_curve(other.trace, analyze_vitality(other.trace), granularity_bytes);
  const double apart = static_cast<double>(other.batch) - static_cast<double>(one.batch);
  BatchMemory memory;
  for (std::size_t kernel = 0; kernel < first.kernels.size(); ++kernel) {
    const auto from_bytes = static_cast<double>(first.kernels[kernel].live_bytes);
    const auto to_bytes = static_cast<double>(second.kernels[kernel].live_bytes);
    const double each_bytes = (to_bytes - from_bytes) / apart;
    memory.kernels_.push_back(
        {from_bytes - each_bytes * static_cast<double>(one.batch), each_bytes});
  }
  return memory;
}

Bytes BatchMemory::peak_bytes(std::uint64_t batch) const {
  double most_bytes = 0;
  for (const Line& line : kernels_) {
    most_bytes =
        std::max(most_bytes, line.at_none_bytes + line.each_bytes * static_cast<double>(batch));
  }
  return static_cast<Bytes>(std::llround(most_bytes));
}

}  // namespace spillway
