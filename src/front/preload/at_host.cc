// Updates next to their data, for libspillway_near: front/near/at_host.h. Layer: front, preload.
#include "front/near/at_host.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "front/preload/session.h"
#include "platform/common/program_platform.h"
#include "platform/common/service_thread.h"

namespace spillway::preload {
namespace {

// What updates that run have been told.
class ToldExtents {
 public:
  const std::vector<Extents>& of(UpdateId update, ProgramPlatform& platform) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = of_.find(update); found != of_.end()) {
        return found->second;
      }
    }
    std::vector<Extents> extents = platform.update_extents(update);
    const std::scoped_lock lock(mutex_);
    return of_[update] = std::move(extents);
  }
  void forget(UpdateId update) {
    const std::scoped_lock lock(mutex_);
    of_.erase(update);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<UpdateId, std::vector<Extents>> of_;
};

ToldExtents& told_extents() {
  static ToldExtents* const told = new ToldExtents;  // threads may outlive static objects
  return *told;
}

ProgramPlatform* platform() {
  Session* const now = session(false);
  return now == nullptr ? nullptr : &now->space->platform();
}

}  // namespace
}  // namespace spillway::preload

extern "C" {

std::uint64_t spillway_at_host_begin(const spillway_at_host_operand* operands, std::size_t count) {
  const spillway::InService inside;
  spillway::ProgramPlatform* const platform = spillway::preload::platform();
  if (platform == nullptr) {
    return 0;
  }
  std::vector<spillway::ProgramOperand> named(count);
  std::transform(operands, operands + count, named.begin(),
                 [](const spillway_at_host_operand& operand) {
                   return spillway::ProgramOperand{.start = operand.start,
                                                   .bytes = operand.bytes,
                                                   .mode = operand.writes != 0
                                                               ? spillway::AccessMode::kReadWrite
                                                               : spillway::AccessMode::kRead};
                 });
  return platform->begin_update(named).value_or(0);
}

std::size_t spillway_at_host_extents(std::uint64_t update, std::size_t operand,
                                     spillway_at_host_extent* to, std::size_t most) {
  const spillway::InService inside;
  const std::vector<spillway::Extents>& all =
      spillway::preload::told_extents().of(update, *spillway::preload::platform());
  if (all.empty()) {
    return 0;
  }
  const spillway::Extents& extents = all.at(operand);
  const std::size_t count = std::min(most, extents.size());
  std::transform(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(count), to,
                 [](const spillway::Extent& extent) {
                   return spillway_at_host_extent{extent.at, extent.bytes};
                 });
  return extents.size();
}

void spillway_at_host_end(std::uint64_t update) {
  const spillway::InService inside;
  spillway::preload::told_extents().forget(update);
  spillway::preload::platform()->end_update(update);
}

}  // extern "C"
