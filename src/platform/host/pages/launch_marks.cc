// See launch_marks.h.
#include "platform/host/pages/launch_marks.h"

#include <thread>

#include "platform/common/process/clock.h"
#include "platform/common/process/current_module.h"

namespace spillway::host {

std::size_t LaunchMarks::add_launch(const LaunchHash& hash, std::string_view name, bool tells_all,
                                    TimeNs stalled_ns) {
  const MutexLock lock(mutex_);
  marks_.push_back({.hash = hash,
                    .name = names_.keep(name, "(others)"),
                    .module = current_module(),
                    .first_block = 0,
                    .block_count = 0,
                    .tells_all = tells_all,
                    .writes = false,
                    .at_ns = now_ns(),
                    .stalled_ns = stalled_ns});
  return marks_.size();
}

void LaunchMarks::add_access(BlockId first_block, std::uint32_t block_count, bool writes) {
  const MutexLock lock(mutex_);
  marks_.push_back({.hash = {},
                    .name = {},
                    .module = {},
                    .first_block = first_block,
                    .block_count = block_count,
                    .tells_all = false,
                    .writes = writes,
                    .at_ns = 0,
                    .stalled_ns = 0});
}

void LaunchMarks::take(std::vector<LaunchMark>& marks) {
  marks.clear();
  constexpr int kTries = 100;  // who is merely adding one is done by then
  for (int tries = 0; tries < kTries; ++tries) {
    if (mutex_.try_lock()) {
      const MutexLock lock(mutex_, std::adopt_lock);
      marks.swap(marks_);
      return;
    }
    std::this_thread::yield();
  }
}

}  // namespace spillway::host
