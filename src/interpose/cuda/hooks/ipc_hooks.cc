// Memory that the program hands to other processes, and theirs that it opens. What is not the
// space's, and handles that are not ours, are the driver's. Layer: interpose, cuda.
// docs/interposer.md.
#include <optional>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/shared_memory.h"

namespace spillway::cuda {
namespace {

std::optional<AddressRange> allocation_of(const Session& session, CuAddress address) {
  const auto range = session.platform->memory().contains(address)
                         ? session.platform->memory().allocation_of(address)
                         : std::nullopt;
  return range && session.heap->describe(range->start) ? range : std::nullopt;
}

CuResult get_handle(const Session& session, const AddressRange& range, CuIpcHandle& handle) {
  if (!session.platform->exports().is_possible()) {
    static std::atomic<bool> told{false};
    return refuse(told, "cuIpcGetMemHandle",
                  "the device has no handles of memory that other processes may open");
  }
  return can_be_shared(session, range.start) ? share(session, range, handle)
                                             : CuResult::kInvalidValue;  // as of a pool's memory
}

CuResult wait_for_device() {
  const Session* const here = session();
  if (here != nullptr) {
    here->platform->streams().before_wait(std::nullopt);
  }
  const CuResult result = real().cuCtxSynchronize();
  if (here != nullptr) {
    here->platform->streams().after_wait(std::nullopt);
  }
  return result;
}

template <typename Call>
CuResult open_handle(CuAddress* address, const CuIpcHandle& handle, const Call& call) {
  ProgramCall here(CallKind::kAllocation);
  const std::optional<SharedHandle> shared = SharedHandle::from(handle);
  return here.inner() || !shared || address == nullptr ? here.driver(call)
                                                       : open_shared(*shared, *address);
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuIpcGetMemHandle(CuIpcHandle* handle, CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const Session* const session = here.seen_by();
  const auto range = session == nullptr ? std::nullopt : cuda::allocation_of(*session, address);
  return range && handle != nullptr
             ? cuda::get_handle(*session, *range, *handle)
             : here.driver([&] { return cuda::real().cuIpcGetMemHandle(handle, address); });
}

CuResult cuIpcOpenMemHandle(CuAddress* address, CuIpcHandle handle, unsigned flags) {
  return cuda::open_handle(address, handle,
                           [&] { return cuda::real().cuIpcOpenMemHandle(address, handle, flags); });
}

CuResult cuIpcOpenMemHandle_v2(CuAddress* address, CuIpcHandle handle, unsigned flags) {
  return cuda::open_handle(
      address, handle, [&] { return cuda::real().cuIpcOpenMemHandle_v2(address, handle, flags); });
}

CuResult cuIpcCloseMemHandle(CuAddress address) {
  cuda::ProgramCall here(CallKind::kFree);
  const std::optional<CuResult> closed =
      here.inner() ? std::nullopt : cuda::close_shared(address, cuda::wait_for_device);
  return closed ? *closed : here.driver([&] { return cuda::real().cuIpcCloseMemHandle(address); });
}

}  // extern "C"
