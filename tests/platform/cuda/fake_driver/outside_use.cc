// Memory that is used from outside the driver, as a disk does by GPUDirect Storage: to the rules it
// is what runs there. Fake driver.
#include <list>
#include <memory>

#include "world.h"

using fake_cuda::Op;
using fake_cuda::OpKind;
using fake_cuda::Range;
using fake_cuda::Running;
using fake_cuda::World;
using fake_cuda::world;

namespace {

struct OutsideUse {
  Op op{.kind = OpKind::kOutside};
  std::list<Running>::iterator running;
};

}  // namespace

extern "C" {

void* fake_cuda_use_begins(uint64_t address, uint64_t bytes, int writes) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const Range range{address, bytes, writes != 0};
  auto use = std::make_unique<OutsideUse>();
  if (const std::string problem = w.memory->problem(range); !problem.empty()) {
    w.report.violation(FAKE_CUDA_UNMAPPED_ACCESS, "{}: ran, but {}", use->op.name(), problem);
    return nullptr;
  }
  for (const Running& other : w.running) {
    for (const Range& theirs : other.ranges) {
      if ((range.writes || theirs.writes) && range.overlaps(theirs)) {
        w.report.violation(FAKE_CUDA_RACE, "{} and {} run at once on the same memory ({:#x})",
                           use->op.name(), other.op->name(), address);
      }
    }
  }
  use->running = w.running.insert(w.running.end(), Running{&use->op, {range}});
  return use.release();
}

void fake_cuda_use_ends(void* use) {
  const std::unique_ptr<OutsideUse> ended(static_cast<OutsideUse*>(use));
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.running.erase(ended->running);
  w.moved();
}

void fake_cuda_use_unseen(uint64_t bytes) {
  const std::lock_guard lock(world().mutex);
  world().unseen_bytes = bytes;
}

uint64_t fake_cuda_unseen_bytes() {
  const std::lock_guard lock(world().mutex);
  return world().unseen_bytes;
}

int fake_cuda_is_for_rdma(uint64_t address) {
  const std::lock_guard lock(world().mutex);
  return world().memory->rdma_capable(address) ? 1 : 0;
}

}  // extern "C"
