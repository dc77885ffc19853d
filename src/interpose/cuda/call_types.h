// What the driver's calls that programs make take and return, beyond those of our own
// (platform/cuda/driver/driver_types.h). Layer: interpose, cuda.
// Sizes and offsets are those of the driver's binary interface;
// tests/interpose/cuda/hooked_abi_test.cc compares them with cuda.h.
#pragma once

#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

struct CuArrayObject;
struct CuGraphObject;
struct CuGraphExecObject;
struct CuGraphNodeObject;
struct CuMemPoolObject;
struct CuModuleObject;
struct CuLibraryObject;
using CuArray = CuArrayObject*;
using CuGraph = CuGraphObject*;
using CuGraphExec = CuGraphExecObject*;  // one that can be launched
using CuGraphNode = CuGraphNodeObject*;
using CuMemPool = CuMemPoolObject*;
using CuModule = CuModuleObject*;
using CuLibrary = CuLibraryObject*;

struct CuMipmapsObject;
struct CuExternalMemoryObject;
using CuMipmaps = CuMipmapsObject*;
using CuExternalMemory = CuExternalMemoryObject*;

struct CuArrayShape {
  std::size_t width, height;  // elements
  unsigned format, channels;
};
struct CuArrayShape3d {
  std::size_t width, height, depth;
  unsigned format, channels, flags;
};

struct CuMemPoolProperties {
  CuAllocationType type;
  CuHandleType exported_as;
  CuLocation location;
  void* windows_only;
  std::size_t most_bytes;
  unsigned short usage;
  unsigned char reserved[54];
};
struct CuMemAllocNode {
  CuMemPoolProperties pool;
  const CuAccessDescription* access;
  std::size_t access_count, bytes;
  CuAddress address;  // the driver's answer
};

// Memory of another interface: Vulkan, Direct3D, a file descriptor.
struct CuExternalMemoryHandle {
  unsigned type;
  union {
    int descriptor;
    void* words[2];
  } handle;
  unsigned long long bytes;
  unsigned flags;
  unsigned reserved[16];
};

enum class CuMemoryType : std::uint32_t { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };

struct CuCopy2d {
  struct Side {
    std::size_t x_bytes, y;
    CuMemoryType type;
    const void* host;
    CuAddress device;
    CuArray array;
    std::size_t pitch_bytes;
  };
  Side from, to;
  std::size_t width_bytes, height;
};

struct CuCopy3d {
  struct Side {
    std::size_t x_bytes, y, z, level;
    CuMemoryType type;
    const void* host;
    CuAddress device;
    CuArray array;
    void* context;  // between contexts; otherwise unused
    std::size_t pitch_bytes, height;
  };
  Side from, to;
  std::size_t width_bytes, height, depth;
};

struct CuKernelNodeV1 {
  CuFunction function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void** parameters;
  void** extra;
};
struct CuKernelNode {
  CuKernelNodeV1 launch;
  CuKernel kernel;  // where its function is nullptr
  CuContext context;
};

struct CuCopyNode {
  int flags, reserved;
  CuContext context;
  CuCopy3d copy;
};

struct CuMemsetNode {
  CuAddress to;
  std::size_t pitch_bytes;
  unsigned value;
  unsigned element_bytes;
  std::size_t width;  // elements
  std::size_t height;
};

struct CuHostNode {
  CuHostFunction function;
  void* argument;
};

// What an order of two nodes is besides, which nobody here looks at.
struct CuGraphEdge {
  unsigned char words[8];
};

// One of a batch: a wait for a value, a write of one, or something without an address.
enum class CuStreamOperationType : std::uint32_t {
  kWaitValue32 = 1,
  kWriteValue32 = 2,
  kFlushRemoteWrites = 3,
  kWaitValue64 = 4,
  kWriteValue64 = 5,
  kBarrier = 6,
};
struct CuStreamOperation {
  CuStreamOperationType type;
  CuAddress address;
  std::uint64_t value;  // of which those of 32 bits have the lower half
  unsigned flags;
  std::uint64_t reserved[2];
};

enum class CuNodeType : std::uint32_t {
  kKernel = 0,
  kCopy = 1,
  kMemset = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5,
  kWaitEvent = 6,
  kRecordEvent = 7,
  kSignalSemaphore = 8,
  kWaitSemaphore = 9,
  kMemAlloc = 10,
  kMemFree = 11,
  kStreamOperations = 12,
  kConditional = 13,
};

struct CuStreamOperationsNode {
  CuContext context;
  unsigned count;
  CuStreamOperation* operations;
  unsigned flags;
};

// Graphs that run if, or as long as, a value says so.
struct CuConditionalNode {
  std::uint64_t handle;
  std::uint32_t type;
  unsigned count;
  CuGraph* graphs;  // the driver's answer: empty graphs for the program to fill
  CuContext context;
};

// Of any node.
struct CuNodeParams {
  CuNodeType type;
  int reserved[3];
  union {
    long long padding[29];
    CuKernelNode kernel;
    CuCopyNode copy;
    CuMemsetNode set;
    CuHostNode host;
    CuGraph child;
    CuStreamOperationsNode operations;
    CuConditionalNode conditional;
    CuMemAllocNode allocation;
  };
  long long reserved_end;
};

enum class CuPointerAttribute : std::uint32_t {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kP2pTokens = 5,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeBytes = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14,
  kIsRdmaCapable = 15,
  kAccessFlags = 16,
  kMemPool = 17,
  kMappingBytes = 18,
  kMappingStart = 19,
  kMemoryBlockId = 20,
  kIsDecompressCapable = 21,
};

enum class CuPoolAttribute : std::uint32_t {
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

enum class CuCaptureStatus : std::uint32_t { kNone = 0, kActive = 1, kInvalidated = 2 };

// What a kernel is given to copy boxes of a tensor: an address and more, as only the driver knows.
// Programs made with CUDA 13 align it to 128 bytes.
struct alignas(64) CuTensorMap {
  std::uint64_t words[16];
};

// By which another process opens an allocation; only ever copied.
struct CuIpcHandle {
  unsigned char bytes[64];
};

// Texture objects over plain device memory.
struct CuResource {
  std::uint32_t type;
  union {
    CuAddress device;
    int reserved[32];
  } from;
  unsigned flags;
};
inline constexpr std::uint32_t kCuResourceLinear = 2;
inline constexpr std::uint32_t kCuResourcePitch2d = 3;

}  // namespace spillway::cuda
