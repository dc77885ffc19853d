// Calls by which a program reserves addresses, makes handles of device memory and maps them.
// Layer: interpose, cuda.
#include <vector>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/libraries/torch_whole_segments.h"
#include "interpose/cuda/memory/mapped_memory.h"

namespace spillway::cuda {
namespace {

// `ours` answers if it can.
template <typename Ours, typename Call>
CuResult answer(CallKind kind, const Ours& ours, const Call& call) {
  ProgramCall here(kind);
  if (const Session* const session = here.seen_by()) {
    if (const MappedMemory::Answer answered = ours(*session)) {
      return *answered;
    }
  }
  return here.driver(call);
}

MappedMemory& memory() { return MappedMemory::of_program(); }

// Before a call of the driver that takes a handle, or the memory behind addresses, for good.
template <typename Call>
CuResult with_real_handle(CuMemHandle handle, const Call& call) {
  ProgramCall here(CallKind::kOther);
  CuResult error = CuResult::kSuccess;
  if (const Session* const session = here.seen_by()) {
    handle = memory().real_handle(*session, handle, error);
  }
  return error != CuResult::kSuccess ? error : here.driver([&] { return call(handle); });
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuMemAddressReserve(CuAddress* address, std::size_t bytes, std::size_t alignment,
                             CuAddress wish, unsigned long long flags) {
  const void* const caller = __builtin_return_address(0);
  cuda::ProgramCall here(CallKind::kAllocation);
  const cuda::Session* const session =
      here.inner() || address == nullptr || flags != 0 ? nullptr : cuda::session_for_allocation();
  if (session != nullptr) {
    if (const auto answered = cuda::memory().reserve(*session, address, bytes, alignment, caller)) {
      return *answered;
    }
  }
  return here.driver(
      [&] { return cuda::real().cuMemAddressReserve(address, bytes, alignment, wish, flags); });
}

CuResult cuMemAddressFree(CuAddress address, std::size_t bytes) {
  return cuda::answer(
      CallKind::kFree,
      [&](const auto& session) { return cuda::memory().free_reserved(session, address, bytes); },
      [&] { return cuda::real().cuMemAddressFree(address, bytes); });
}

CuResult cuMemCreate(CuMemHandle* handle, std::size_t bytes,
                     const CuAllocationProperties* properties, unsigned long long flags) {
  const void* const caller = __builtin_return_address(0);
  cuda::ProgramCall here(CallKind::kAllocation);
  const cuda::Session* const session = here.inner() || handle == nullptr || properties == nullptr ||
                                               flags != 0 ||
                                               properties->location.type != CuLocationType::kDevice
                                           ? nullptr
                                           : cuda::session_for_allocation();
  if (session != nullptr) {
    if (const auto answered = cuda::memory().create(*session, handle, bytes, *properties, caller)) {
      if (*answered == CuResult::kOutOfMemory) {
        cuda::divide_again();
      }
      return *answered;
    }
  }
  const CuResult result =
      here.driver([&] { return cuda::real().cuMemCreate(handle, bytes, properties, flags); });
  if (session != nullptr && result == CuResult::kSuccess &&
      properties->location.id == session->device) {
    cuda::memory().made_by_driver(*handle, bytes, caller);
  }
  return result;
}

CuResult cuMemRelease(CuMemHandle handle) {
  return cuda::answer(
      CallKind::kFree, [&](const auto& session) { return cuda::memory().release(session, handle); },
      [&] { return cuda::real().cuMemRelease(handle); });
}

CuResult cuMemMap(CuAddress address, std::size_t bytes, std::size_t offset, CuMemHandle handle,
                  unsigned long long flags) {
  return cuda::answer(
      CallKind::kAllocation,
      [&](const auto& session) {
        return flags != 0 ? cuda::MappedMemory::Answer(CuResult::kInvalidValue)
                          : cuda::memory().map(session, address, bytes, offset, handle);
      },
      [&] { return cuda::real().cuMemMap(address, bytes, offset, handle, flags); });
}

CuResult cuMemUnmap(CuAddress address, std::size_t bytes) {
  return cuda::answer(
      CallKind::kFree,
      [&](const auto& session) { return cuda::memory().unmap(session, address, bytes); },
      [&] { return cuda::real().cuMemUnmap(address, bytes); });
}

CuResult cuMemSetAccess(CuAddress address, std::size_t bytes,
                        const CuAccessDescription* descriptions, std::size_t count) {
  return cuda::answer(
      CallKind::kOther,
      [&](const auto& session) {
        const std::vector<CuAccessDescription> who(
            descriptions, descriptions == nullptr ? descriptions : descriptions + count);
        return cuda::memory().set_access(session, address, bytes, who);
      },
      [&] { return cuda::real().cuMemSetAccess(address, bytes, descriptions, count); });
}

CuResult cuMemRetainAllocationHandle(CuMemHandle* handle, void* address) {
  return cuda::answer(
      CallKind::kQuestion,
      [&](const auto& /*session*/) {
        return handle == nullptr
                   ? std::nullopt
                   : cuda::memory().retain(handle, reinterpret_cast<CuAddress>(address));
      },
      [&] { return cuda::real().cuMemRetainAllocationHandle(handle, address); });
}

CuResult cuMemGetAllocationPropertiesFromHandle(CuAllocationProperties* properties,
                                                CuMemHandle handle) {
  return cuda::answer(
      CallKind::kQuestion,
      [&](const auto& /*session*/) {
        return properties == nullptr ? std::nullopt
                                     : cuda::memory().properties_of(properties, handle);
      },
      [&] { return cuda::real().cuMemGetAllocationPropertiesFromHandle(properties, handle); });
}

CuResult cuMemExportToShareableHandle(void* shareable, CuMemHandle handle, unsigned type,
                                      unsigned long long flags) {
  return cuda::with_real_handle(handle, [&](CuMemHandle it) {
    return cuda::real().cuMemExportToShareableHandle(shareable, it, type, flags);
  });
}

CuResult cuMulticastBindMem(CuMemHandle multicast, std::size_t at, CuMemHandle handle,
                            std::size_t offset, std::size_t bytes, unsigned long long flags) {
  return cuda::with_real_handle(handle, [&](CuMemHandle it) {
    return cuda::real().cuMulticastBindMem(multicast, at, it, offset, bytes, flags);
  });
}

CuResult cuMulticastBindAddr(CuMemHandle multicast, std::size_t at, CuAddress address,
                             std::size_t bytes, unsigned long long flags) {
  return cuda::answer(
      CallKind::kOther,
      [&](const auto& session) {
        const CuResult made = cuda::memory().make_real(session, address, bytes);
        return made == CuResult::kSuccess ? std::nullopt : cuda::MappedMemory::Answer(made);
      },
      [&] { return cuda::real().cuMulticastBindAddr(multicast, at, address, bytes, flags); });
}

}  // extern "C"
