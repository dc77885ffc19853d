// What is asked about an address of the space is answered as if its memory were on the device; what
// would give others a way to the memory itself is refused. Layer: interpose, cuda.
#include <cstring>
#include <optional>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/context_memory.h"
#include "interpose/cuda/memory/mapped_memory.h"
#include "interpose/cuda/memory/memory_pools.h"
#include "interpose/cuda/memory/shared_memory.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {
namespace {

struct Place {
  const Session* session;
  AddressRange range;  // as it was asked for
  std::uint64_t serial;
  DeviceHeap::Pool pool = DeviceHeap::kNoPool;
};
// An allocation of the space in which the address lies.
std::optional<Place> place_of(const ProgramCall& here, CuAddress address) {
  const Session* const session = here.seen_by();
  if (session == nullptr || !session->platform->memory().contains(address)) {
    return std::nullopt;
  }
  const auto range = session->platform->memory().allocation_of(address);
  if (!range) {
    return std::nullopt;
  }
  Place place{.session = session, .range = *range, .serial = range->start};
  if (const auto used = session->heap->describe(range->start)) {
    place.range.bytes = used->bytes;
    place.serial = used->serial;
    place.pool = used->pool;
  } else if (!MappedMemory::of_program().reservation_of(address)) {
    return std::nullopt;
  }
  return address - range->start < place.range.bytes ? std::optional(place) : std::nullopt;
}

// A pool's is the device's: whoever asks has it.
CuContext context_of(const Place& place) {
  CuContext current = nullptr;
  (void)real().cuCtxGetCurrent(&current);
  return owner_of_memory(place.range.start)
      .value_or(current != nullptr ? current : place.session->context);
}

template <typename T>
CuResult put(void* data, T value) {
  std::memcpy(data, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): a pointer is meant
  return CuResult::kSuccess;
}

// What is so or not takes a word in the driver's answers.
CuResult put_whether(void* data, bool so) { return put(data, so ? 1U : 0U); }

// Where the program has reserved addresses and mapped memory there, all of those.
AddressRange range_of(const Place& place, CuAddress address) {
  return MappedMemory::of_program().reservation_of(address).value_or(place.range);
}

CuResult tell(const Place& place, CuPointerAttribute attribute, CuAddress address, void* data) {
  switch (attribute) {
    case CuPointerAttribute::kContext:
      return put(data, context_of(place));
    case CuPointerAttribute::kMemoryType:
      return put(data, CuMemoryType::kDevice);
    case CuPointerAttribute::kDevicePointer:
      return put(data, address);
    case CuPointerAttribute::kSyncMemops:  // the driver's default
      return put_whether(data, true);
    case CuPointerAttribute::kIsManaged:
    case CuPointerAttribute::kIsRdmaCapable:
    case CuPointerAttribute::kIsDecompressCapable:
      return put_whether(data, false);
    case CuPointerAttribute::kIsLegacyIpcCapable:
      return put_whether(data, can_be_shared(*place.session, place.range.start));
    case CuPointerAttribute::kBufferId:
    case CuPointerAttribute::kMemoryBlockId:
      return put<std::uint64_t>(data, place.serial);
    case CuPointerAttribute::kDeviceOrdinal:
      return put(data, place.session->device);
    case CuPointerAttribute::kRangeStart:
      return put(data, range_of(place, address).start);
    case CuPointerAttribute::kMappingStart:
      return put(data, place.range.start);
    case CuPointerAttribute::kRangeBytes:
      return put<std::size_t>(data, range_of(place, address).bytes);
    case CuPointerAttribute::kMappingBytes:
      return put<std::size_t>(data, place.range.bytes);
    case CuPointerAttribute::kMapped:
      return put_whether(data, true);
    case CuPointerAttribute::kAllowedHandleTypes:
      return put<std::uint64_t>(data, MappedMemory::of_program().exported_as(address));
    case CuPointerAttribute::kAccessFlags:
      return put(data, CuAccess::kReadWrite);
    case CuPointerAttribute::kMemPool:
      return put(data, handle_of_pool(place.pool));
    case CuPointerAttribute::kHostPointer:
      (void)put<void*>(data, nullptr);
      break;
    case CuPointerAttribute::kP2pTokens:
      break;
  }
  return CuResult::kInvalidValue;
}

// Through such a handle, or such a texture, memory is used that no launch names.
CuResult refuse_for(const char* call) {
  static std::atomic<bool> told{false};
  return refuse(told, call,
                "the memory behind an address comes and goes, and this would go around that");
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuPointerGetAttribute(void* data, CuPointerAttribute attribute, CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const auto place = cuda::place_of(here, address);
  return place && data != nullptr ? cuda::tell(*place, attribute, address, data) : here.driver([&] {
    return cuda::real().cuPointerGetAttribute(data, attribute, address);
  });
}

CuResult cuPointerGetAttributes(unsigned count, CuPointerAttribute* attributes, void** data,
                                CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const auto place = cuda::place_of(here, address);
  if (!place || attributes == nullptr || data == nullptr) {
    return here.driver(
        [&] { return cuda::real().cuPointerGetAttributes(count, attributes, data, address); });
  }
  for (unsigned i = 0; i < count; ++i) {
    (void)cuda::tell(*place, attributes[i], address, data[i]);
  }
  return CuResult::kSuccess;
}

CuResult cuPointerSetAttribute(const void* value, CuPointerAttribute attribute, CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  return cuda::place_of(here, address)
             ? cuda::refuse_for("cuPointerSetAttribute")
             : here.driver(
                   [&] { return cuda::real().cuPointerSetAttribute(value, attribute, address); });
}

CuResult cuMemGetAddressRange_v2(CuAddress* start, std::size_t* bytes, CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const auto place = cuda::place_of(here, address);
  if (!place) {
    return here.driver([&] { return cuda::real().cuMemGetAddressRange_v2(start, bytes, address); });
  }
  if (start != nullptr) {
    *start = place->range.start;
  }
  if (bytes != nullptr) {
    *bytes = place->range.bytes;
  }
  return CuResult::kSuccess;
}

CuResult cuMemGetAccess(unsigned long long* flags, const CuLocation* location, CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const auto place = cuda::place_of(here, address);
  if (!place || flags == nullptr || location == nullptr) {
    return here.driver([&] { return cuda::real().cuMemGetAccess(flags, location, address); });
  }
  const bool own =
      location->type == CuLocationType::kDevice && location->id == place->session->device;
  if (location->type == CuLocationType::kDevice) {
    if (const auto access = cuda::MappedMemory::of_program().access_of(address, location->id)) {
      *flags = static_cast<unsigned long long>(*access);
      return CuResult::kSuccess;
    }
  }
  *flags = static_cast<unsigned long long>(own ? CuAccess::kReadWrite : CuAccess::kNone);
  return CuResult::kSuccess;
}

CuResult cuMemPoolExportPointer(void* data, CuAddress address) {
  cuda::ProgramCall here(CallKind::kQuestion);
  return cuda::place_of(here, address)
             ? cuda::refuse_for("cuMemPoolExportPointer")
             : here.driver([&] { return cuda::real().cuMemPoolExportPointer(data, address); });
}

CuResult cuMemGetHandleForAddressRange(void* handle, CuAddress address, std::size_t bytes,
                                       unsigned type, unsigned long long flags) {
  cuda::ProgramCall here(CallKind::kQuestion);
  return cuda::place_of(here, address) ? cuda::refuse_for("cuMemGetHandleForAddressRange")
                                       : here.driver([&] {
                                           return cuda::real().cuMemGetHandleForAddressRange(
                                               handle, address, bytes, type, flags);
                                         });
}

CuResult cuTexObjectCreate(std::uint64_t* texture, const CuResource* resource,
                           const void* description, const void* view) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const bool plain = resource != nullptr && (resource->type == cuda::kCuResourceLinear ||
                                             resource->type == cuda::kCuResourcePitch2d);
  return plain && cuda::place_of(here, resource->from.device)
             ? cuda::refuse_for("cuTexObjectCreate")
             : here.driver([&] {
                 return cuda::real().cuTexObjectCreate(texture, resource, description, view);
               });
}

}  // extern "C"
