// See handle_memory.h.
#include "interpose/cuda/memory/handle_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/issue.h"

namespace spillway::cuda {
namespace {

// From a part of the allocation to where the handle is mapped meanwhile; so much at once that it
// has room in any budget.
CuResult copy_parts(const Session& session, CuStream stream, CuAddress to, CuAddress from,
                    Bytes bytes) {
  constexpr Bytes kPartBytes = 4 * kMiB;
  for (Bytes at = 0; at < bytes; at += kPartBytes) {
    const CudaOperand part{
        .address = from + at, .bytes = std::min(kPartBytes, bytes - at), .mode = AccessMode::kRead};
    const CuResult result = issue(
        session,
        {.stream = stream,
         .hash = {},
         .name = "a copy to memory of the driver's",
         .operands = {&part, 1},
         .needs_mapping = true},
        [&] { return real().cuMemcpyDtoDAsync_v2(to + at, part.address, part.bytes, stream); });
    if (result != CuResult::kSuccess) {
      return result;
    }
  }
  session.platform->streams().before_wait(stream);
  const CuResult waited = real().cuStreamSynchronize(stream);
  session.platform->streams().after_wait(stream);
  return waited;
}

CuResult wait_for_device(const Session& session) {
  session.platform->streams().before_wait(std::nullopt);
  const CuResult waited = real().cuCtxSynchronize();
  session.platform->streams().after_wait(std::nullopt);
  return waited;
}

// Without its folder; empty where nothing is loaded.
std::string_view file_of(const void* code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  std::string_view file = info.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1: nothing
  return file;
}

}  // namespace

bool gives_memory_away(const void* code) {
  const std::string_view file = file_of(code);
  return file.starts_with("libnccl") || file.starts_with("libnvshmem");
}

bool fills_reservations(const void* code) { return file_of(code).starts_with("libc10_cuda"); }

CuResult try_properties(const CuAllocationProperties& properties) {
  using Kind = std::tuple<CuHandleType, unsigned, unsigned>;
  const Kind kind{properties.exported_as, properties.flags.compression,
                  properties.flags.rdma_capable};
  if (kind == Kind{CuHandleType::kNone, 0, 0}) {
    return CuResult::kSuccess;
  }
  static Mutex mutex;
  static auto* const tried SPILLWAY_PT_GUARDED_BY(mutex) = new std::map<Kind, CuResult>;
  const MutexLock lock(mutex);
  if (const auto found = tried->find(kind); found != tried->end()) {
    return found->second;
  }
  std::size_t bytes = 0;
  CuResult result =
      real().cuMemGetAllocationGranularity(&bytes, &properties, CuGranularity::kMinimum);
  CuMemHandle handle = 0;
  if (result == CuResult::kSuccess) {
    result = real().cuMemCreate(&handle, bytes, &properties, 0);
  }
  if (result == CuResult::kSuccess) {
    (void)real().cuMemRelease(handle);
  }
  if (result == CuResult::kOutOfMemory) {
    return CuResult::kSuccess;  // it says nothing of the kind
  }
  tried->emplace(kind, result);
  return result;
}

CuResult copy_to_driver(const Session& session, CuMemHandle to, CuAddress from, Bytes bytes) {
  if (const CuResult waited = wait_for_device(session); waited != CuResult::kSuccess) {
    return waited;
  }
  CuAddress meanwhile = 0;
  CuResult result = real().cuMemAddressReserve(&meanwhile, bytes, 0, 0, 0);
  if (result != CuResult::kSuccess) {
    return result;
  }
  CuStream stream = nullptr;
  result = map_driver_memory(meanwhile, bytes, to, {{session.device, CuAccess::kReadWrite}});
  const bool mapped = result == CuResult::kSuccess;
  if (mapped) {
    result = real().cuStreamCreate(&stream, kCuStreamNonBlocking);
  }
  if (stream != nullptr) {
    result = copy_parts(session, stream, meanwhile, from, bytes);
    session.platform->streams().destroyed(stream);
    (void)real().cuStreamDestroy_v2(stream);
  }
  if (mapped) {
    (void)real().cuMemUnmap(meanwhile, bytes);
  }
  (void)real().cuMemAddressFree(meanwhile, bytes);
  return result;
}

CuResult map_driver_memory(CuAddress address, Bytes bytes, CuMemHandle handle,
                           const std::map<int, CuAccess>& access) {
  CuResult result = real().cuMemMap(address, bytes, 0, handle, 0);
  if (result != CuResult::kSuccess || access.empty()) {
    return result;
  }
  std::vector<CuAccessDescription> who;
  who.reserve(access.size());
  for (const auto& [device, may] : access) {
    who.push_back({.location = {.type = CuLocationType::kDevice, .id = device}, .access = may});
  }
  result = real().cuMemSetAccess(address, bytes, who.data(), who.size());
  if (result != CuResult::kSuccess) {
    (void)real().cuMemUnmap(address, bytes);
  }
  return result;
}

}  // namespace spillway::cuda
