// See library_calls.h.
#include "interpose/cuda/libraries/library_calls.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/mutex.h"

namespace spillway::cuda {
namespace {

struct Workspaces {
  Mutex mutex;
  std::unordered_map<const void*, Workspace> of SPILLWAY_GUARDED_BY(mutex);
};
Workspaces& workspaces() {
  static auto* const all = new Workspaces;  // threads of the program may run until the very end
  return *all;
}

}  // namespace

constinit thread_local LibraryCall* LibraryCall::innermost = nullptr;

const MatrixProduct* LibraryCall::product() {
  if (!described_) {
    described_ = true;
    product_ = describe();
  }
  return product_ ? &*product_ : nullptr;
}

bool only_reads(const MatrixProduct& product, const CudaOperand& operand) {
  const auto in_it = [&](CuAddress address) {
    return address >= operand.address && address - operand.address < operand.bytes;
  };
  const std::array read = {product.a, product.b, product.c, product.bias};
  return std::any_of(read.begin(), read.end(), in_it) && !in_it(product.d) &&
         !in_it(product.workspace);
}

void set_workspace(const void* handle, const Workspace& workspace) {
  const MutexLock lock(workspaces().mutex);
  workspaces().of[handle] = workspace;
}

Workspace workspace_of(const void* handle) {
  const MutexLock lock(workspaces().mutex);
  const auto found = workspaces().of.find(handle);
  return found == workspaces().of.end() ? Workspace() : found->second;
}

}  // namespace spillway::cuda
