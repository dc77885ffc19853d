// What the libraries that define near/at_host.h have in common: operands and extents in the
// terms of a platform. Layer: near.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "near/at_host.h"
#include "platform/common/program_platform.h"

namespace spillway::near {

[[nodiscard]] inline std::vector<ProgramOperand> named(const spillway_at_host_operand* operands,
                                                       std::size_t count) {
  std::vector<ProgramOperand> all(count);
  std::transform(operands, operands + count, all.begin(),
                 [](const spillway_at_host_operand& operand) {
                   return ProgramOperand{
                       .start = operand.start,
                       .bytes = operand.bytes,
                       .mode = operand.writes != 0 ? AccessMode::kReadWrite : AccessMode::kRead};
                 });
  return all;
}

// What updates that run have been told. Thread-safe.
class KnownExtents {
 public:
  // `ask`: for all operands, once.
  template <typename Ask>
  std::size_t tell(UpdateId update, std::size_t operand, spillway_at_host_extent* to,
                   std::size_t most, const Ask& ask) {
    const std::vector<Extents>& all = of(update, ask);
    if (all.empty()) {
      return 0;
    }
    const Extents& extents = all.at(operand);
    const std::size_t count = std::min(most, extents.size());
    std::transform(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(count), to,
                   [](const Extent& extent) {
                     return spillway_at_host_extent{extent.at, extent.bytes};
                   });
    return extents.size();
  }
  void forget(UpdateId update) {
    const MutexLock lock(mutex_);
    of_.erase(update);
  }

 private:
  template <typename Ask>
  const std::vector<Extents>& of(UpdateId update, const Ask& ask) {
    {
      const MutexLock lock(mutex_);
      if (const auto found = of_.find(update); found != of_.end()) {
        return found->second;
      }
    }
    std::vector<Extents> extents = ask();
    const MutexLock lock(mutex_);
    return of_[update] = std::move(extents);
  }

  Mutex mutex_;
  std::unordered_map<UpdateId, std::vector<Extents>> of_ SPILLWAY_GUARDED_BY(mutex_);
};

[[nodiscard]] inline KnownExtents& known_extents() {
  static KnownExtents* const told = new KnownExtents;  // threads may outlive static objects
  return *told;
}

}  // namespace spillway::near
