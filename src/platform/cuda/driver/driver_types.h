// What the driver library's calls take and return: our own declarations of the few that are needed,
// so that a build needs no CUDA toolkit. Layer: platform, cuda.
// Sizes, offsets and values are those of the driver's binary interface;
// tests/platform/cuda/driver_abi_test.cc compares them with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::cuda {

using CuDevice = int;
using CuAddress = std::uint64_t;    // of device memory, or of pinned host memory
using CuMemHandle = std::uint64_t;  // physical memory; 0 is none

// Only ever pointers to them.
struct CuContextObject;
struct CuStreamObject;
struct CuEventObject;
struct CuFunctionObject;
struct CuKernelObject;
using CuContext = CuContextObject*;
using CuStream = CuStreamObject*;      // nullptr is the context's null stream
using CuEvent = CuEventObject*;        // one recording at a time
using CuFunction = CuFunctionObject*;  // a kernel in one context
using CuKernel = CuKernelObject*;      // a kernel of a library, in any context
using CuHostFunction = void (*)(void*);

// Those that Spillway tells apart. Others arrive as well.
enum class CuResult : std::uint32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kContained = 226,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kHardwareStackError = 714,
  kLaunchFailed = 719,
  kTensorMemoryLeak = 721,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemDriverMismatch = 803,
  kMpsClientTerminated = 810,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kUnknown = 999,
};

enum class CuAttribute : std::uint32_t {
  kMultiprocessorCount = 16,
  kComputeMode = 20,
  kPciBusId = 33,
  kPciDeviceId = 34,
  kAsyncEngineCount = 40,
  kUnifiedAddressing = 41,
  kPciDomainId = 50,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kHostPointerForRegisteredMemory = 91,  // the device sees it at the address that the host uses
  kHostRegisterSupported = 99,
  kVirtualMemoryManagement = 102,
  kHandleTypeFileDescriptor = 103,  // handles that other processes may open
  kRdmaWritesOrdering = 118,        // for whom what others write is in order; 100: for the device
  kStreamMemoryOperations64 = 122,  // cuStreamWaitValue64 and cuStreamWriteValue64
  kHandleTypeFabric = 128,          // ... on other machines
  kHostNumaId = 134,                // of the node next to the device; -1 if there are none
  kHostNumaVirtualMemory = 141,     // handles of host memory behind device addresses
};

enum class CuLocationType : std::uint32_t { kInvalid = 0, kDevice = 1, kHost = 2, kHostNuma = 3 };
struct CuLocation {
  CuLocationType type;
  int id;  // the device, or the NUMA node
};

enum class CuAllocationType : std::uint32_t { kPinned = 1 };
enum class CuHandleType : std::uint32_t { kNone = 0, kFileDescriptor = 1 };
struct CuAllocationProperties {
  CuAllocationType type;
  CuHandleType exported_as;
  CuLocation location;
  void* windows_only;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
enum class CuGranularity : std::uint32_t { kMinimum = 0, kRecommended = 1 };

enum class CuAccess : std::uint32_t { kNone = 0, kRead = 1, kReadWrite = 3 };
struct CuAccessDescription {
  CuLocation location;  // who may
  CuAccess access;
};

struct CuUuid {
  unsigned char bytes[16];
};

// Of a launch: what kind of attribute, and its value.
struct CuLaunchAttribute {
  unsigned id;
  unsigned reserved;
  alignas(8) unsigned char value[64];
};
inline constexpr unsigned kCuAttributeIgnore = 0;
inline constexpr unsigned kCuAttributeCooperative = 2;
inline constexpr unsigned kCuAttributeClusterSize = 4;
inline constexpr unsigned kCuAttributeClusterScheduling = 5;
inline constexpr unsigned kCuAttributeStartsEarly = 6;  // "programmatic stream serialization"
inline constexpr unsigned kCuAttributePriority = 8;
inline constexpr unsigned kCuAttributePreferredClusterSize = 11;
inline constexpr unsigned kCuAttributeUpdatedByDevice = 13;

struct CuLaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned attribute_count;
};

// What a list of a launch's `extra` consists of: one of these, then its value.
inline constexpr std::uintptr_t kCuExtraEnd = 0;
inline constexpr std::uintptr_t kCuExtraBuffer = 1;       // the parameter block
inline constexpr std::uintptr_t kCuExtraBufferBytes = 2;  // size_t*

// A thread's: it may make any call while somebody else's streams are captured.
inline constexpr unsigned kCuCaptureRelaxed = 2;

inline constexpr unsigned kCuContextBlockingSync = 0x4;
inline constexpr unsigned kCuStreamDefault = 0;
inline constexpr unsigned kCuStreamNonBlocking = 1;  // not ordered with the null stream
inline constexpr std::uintptr_t kCuStreamLegacy = 1;
inline constexpr std::uintptr_t kCuStreamPerThread = 2;
// The null stream has two names.
[[nodiscard]] inline CuStream canonical(CuStream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) == kCuStreamLegacy ? nullptr : stream;
}
// One handle for the default streams that threads have of their own.
[[nodiscard]] inline bool is_per_thread(CuStream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) == kCuStreamPerThread;
}
inline constexpr unsigned kCuEventDefault = 0;
inline constexpr unsigned kCuEventBlockingSync = 1;
inline constexpr unsigned kCuEventDisableTiming = 2;

// Wait until (int64)(*address - value) >= 0; *address == value; (*address & value) != 0;
// ~(*address | value) != 0.
inline constexpr unsigned kCuWaitAtLeast = 0;
inline constexpr unsigned kCuWaitEqual = 1;
inline constexpr unsigned kCuWaitAnyBit = 2;
inline constexpr unsigned kCuWaitNor = 3;
inline constexpr unsigned kCuWriteDefault = 0;
inline constexpr unsigned kCuWriteNoBarrier = 1;  // may overtake earlier writes of the stream

inline constexpr unsigned kCuHostAllocPortable = 1;  // pinned for every context
inline constexpr unsigned kCuHostAllocDeviceMap = 2;
inline constexpr unsigned kCuHostRegisterPortable = 1;
inline constexpr unsigned kCuHostRegisterDeviceMap = 2;

enum class CuSymbolStatus : std::uint32_t { kFound = 0, kNotFound = 1, kVersionTooOld = 2 };
inline constexpr std::uint64_t kCuLegacyStream = 1;  // symbols whose stream 0 is the null stream

}  // namespace spillway::cuda
