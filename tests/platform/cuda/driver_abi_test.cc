// Our declarations of the driver's calls against CUDA's own header: every signature, structure and
// value. Compiling it is the test. tools/cuda-headers.sh downloads the header.
#include <gtest/gtest.h>

#if __has_include(<cuda.h>)

// The header also declares the symbols behind its macros with this.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(*-reserved-identifier)
#include <cuda.h>

#include "platform/cuda/driver/driver_calls.h"
#include "platform/cuda/same_call.h"

namespace spillway::cuda {
namespace {

#define SPILLWAY_COMPARE(field, symbol, since, parameters) \
  static_assert(SameCall<CuResult parameters, decltype(::symbol)>::value, #symbol);
SPILLWAY_CUDA_CALLS(SPILLWAY_COMPARE)
#undef SPILLWAY_COMPARE

SPILLWAY_EQUAL(CuResult::kSuccess, CUDA_SUCCESS);
SPILLWAY_EQUAL(CuResult::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SPILLWAY_EQUAL(CuResult::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SPILLWAY_EQUAL(CuResult::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SPILLWAY_EQUAL(CuResult::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SPILLWAY_EQUAL(CuResult::kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
SPILLWAY_EQUAL(CuResult::kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SPILLWAY_EQUAL(CuResult::kNoDevice, CUDA_ERROR_NO_DEVICE);
SPILLWAY_EQUAL(CuResult::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SPILLWAY_EQUAL(CuResult::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SPILLWAY_EQUAL(CuResult::kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SPILLWAY_EQUAL(CuResult::kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SPILLWAY_EQUAL(CuResult::kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
SPILLWAY_EQUAL(CuResult::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SPILLWAY_EQUAL(CuResult::kIllegalState, CUDA_ERROR_ILLEGAL_STATE);
SPILLWAY_EQUAL(CuResult::kNotFound, CUDA_ERROR_NOT_FOUND);
SPILLWAY_EQUAL(CuResult::kNotReady, CUDA_ERROR_NOT_READY);
SPILLWAY_EQUAL(CuResult::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SPILLWAY_EQUAL(CuResult::kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SPILLWAY_EQUAL(CuResult::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SPILLWAY_EQUAL(CuResult::kAssert, CUDA_ERROR_ASSERT);
SPILLWAY_EQUAL(CuResult::kHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SPILLWAY_EQUAL(CuResult::kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SPILLWAY_EQUAL(CuResult::kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SPILLWAY_EQUAL(CuResult::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SPILLWAY_EQUAL(CuResult::kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
SPILLWAY_EQUAL(CuResult::kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SPILLWAY_EQUAL(CuResult::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SPILLWAY_EQUAL(CuResult::kMpsClientTerminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
SPILLWAY_EQUAL(CuResult::kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SPILLWAY_EQUAL(CuResult::kCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SPILLWAY_EQUAL(CuResult::kUnknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000
SPILLWAY_EQUAL(CuResult::kContained, CUDA_ERROR_CONTAINED);
SPILLWAY_EQUAL(CuResult::kTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif

SPILLWAY_EQUAL(CuAttribute::kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SPILLWAY_EQUAL(CuAttribute::kComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SPILLWAY_EQUAL(CuAttribute::kPciBusId, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SPILLWAY_EQUAL(CuAttribute::kPciDeviceId, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SPILLWAY_EQUAL(CuAttribute::kAsyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SPILLWAY_EQUAL(CuAttribute::kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SPILLWAY_EQUAL(CuAttribute::kPciDomainId, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SPILLWAY_EQUAL(CuAttribute::kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SPILLWAY_EQUAL(CuAttribute::kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SPILLWAY_EQUAL(CuAttribute::kHostPointerForRegisteredMemory,
               CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SPILLWAY_EQUAL(CuAttribute::kHostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
SPILLWAY_EQUAL(CuAttribute::kVirtualMemoryManagement,
               CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SPILLWAY_EQUAL(CuAttribute::kHandleTypeFileDescriptor,
               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SPILLWAY_EQUAL(CuAttribute::kHandleTypeFabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SPILLWAY_EQUAL(CuAttribute::kRdmaWritesOrdering,
               CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SPILLWAY_EQUAL(CuAttribute::kStreamMemoryOperations64,
               CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SPILLWAY_EQUAL(CuAttribute::kHostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
SPILLWAY_EQUAL(CuAttribute::kHostNumaVirtualMemory,
               CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);

SPILLWAY_EQUAL(CuLocationType::kInvalid, CU_MEM_LOCATION_TYPE_INVALID);
SPILLWAY_EQUAL(CuLocationType::kDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SPILLWAY_EQUAL(CuLocationType::kHost, CU_MEM_LOCATION_TYPE_HOST);
SPILLWAY_EQUAL(CuLocationType::kHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SPILLWAY_EQUAL(CuAllocationType::kPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SPILLWAY_EQUAL(CuHandleType::kNone, CU_MEM_HANDLE_TYPE_NONE);
SPILLWAY_EQUAL(CuHandleType::kFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SPILLWAY_EQUAL(CuGranularity::kMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SPILLWAY_EQUAL(CuGranularity::kRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SPILLWAY_EQUAL(CuAccess::kNone, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SPILLWAY_EQUAL(CuAccess::kRead, CU_MEM_ACCESS_FLAGS_PROT_READ);
SPILLWAY_EQUAL(CuAccess::kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SPILLWAY_EQUAL(CuSymbolStatus::kFound, CU_GET_PROC_ADDRESS_SUCCESS);
SPILLWAY_EQUAL(CuSymbolStatus::kNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SPILLWAY_EQUAL(CuSymbolStatus::kVersionTooOld, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SPILLWAY_EQUAL(kCuLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

SPILLWAY_EQUAL(kCuExtraEnd, CU_LAUNCH_PARAM_END_AS_INT);
SPILLWAY_EQUAL(kCuExtraBuffer, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
SPILLWAY_EQUAL(kCuExtraBufferBytes, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);
SPILLWAY_EQUAL(kCuContextBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC);
SPILLWAY_EQUAL(kCuCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SPILLWAY_EQUAL(kCuStreamDefault, CU_STREAM_DEFAULT);
SPILLWAY_EQUAL(kCuStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SPILLWAY_EQUAL(kCuEventDefault, CU_EVENT_DEFAULT);
SPILLWAY_EQUAL(kCuEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SPILLWAY_EQUAL(kCuEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SPILLWAY_EQUAL(kCuWaitAtLeast, CU_STREAM_WAIT_VALUE_GEQ);
SPILLWAY_EQUAL(kCuWaitEqual, CU_STREAM_WAIT_VALUE_EQ);
SPILLWAY_EQUAL(kCuWaitAnyBit, CU_STREAM_WAIT_VALUE_AND);
SPILLWAY_EQUAL(kCuWaitNor, CU_STREAM_WAIT_VALUE_NOR);
SPILLWAY_EQUAL(kCuWriteDefault, CU_STREAM_WRITE_VALUE_DEFAULT);
SPILLWAY_EQUAL(kCuWriteNoBarrier, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
SPILLWAY_EQUAL(kCuHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
SPILLWAY_EQUAL(kCuHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
SPILLWAY_EQUAL(kCuHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
SPILLWAY_EQUAL(kCuHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);

SPILLWAY_SAME_SIZE(CuLocation, CUmemLocation);
SPILLWAY_SAME_PLACE(CuLocation, type, CUmemLocation, type);
SPILLWAY_SAME_PLACE(CuLocation, id, CUmemLocation, id);
SPILLWAY_SAME_SIZE(CuAllocationProperties, CUmemAllocationProp);
SPILLWAY_SAME_PLACE(CuAllocationProperties, type, CUmemAllocationProp, type);
SPILLWAY_SAME_PLACE(CuAllocationProperties, exported_as, CUmemAllocationProp, requestedHandleTypes);
SPILLWAY_SAME_PLACE(CuAllocationProperties, location, CUmemAllocationProp, location);
SPILLWAY_SAME_PLACE(CuAllocationProperties, windows_only, CUmemAllocationProp, win32HandleMetaData);
SPILLWAY_SAME_PLACE(CuAllocationProperties, flags, CUmemAllocationProp, allocFlags);
SPILLWAY_SAME_PLACE(CuAllocationProperties, flags.compression, CUmemAllocationProp,
                    allocFlags.compressionType);
SPILLWAY_SAME_PLACE(CuAllocationProperties, flags.rdma_capable, CUmemAllocationProp,
                    allocFlags.gpuDirectRDMACapable);
SPILLWAY_SAME_PLACE(CuAllocationProperties, flags.usage, CUmemAllocationProp, allocFlags.usage);
SPILLWAY_SAME_PLACE(CuAllocationProperties, flags.reserved, CUmemAllocationProp,
                    allocFlags.reserved);
SPILLWAY_SAME_SIZE(CuAccessDescription, CUmemAccessDesc);
SPILLWAY_SAME_PLACE(CuAccessDescription, location, CUmemAccessDesc, location);
SPILLWAY_SAME_PLACE(CuAccessDescription, access, CUmemAccessDesc, flags);
SPILLWAY_SAME_SIZE(CuUuid, CUuuid);
SPILLWAY_SAME_SIZE(CuLaunchConfig, CUlaunchConfig);
SPILLWAY_SAME_PLACE(CuLaunchConfig, grid_x, CUlaunchConfig, gridDimX);
SPILLWAY_SAME_PLACE(CuLaunchConfig, grid_y, CUlaunchConfig, gridDimY);
SPILLWAY_SAME_PLACE(CuLaunchConfig, grid_z, CUlaunchConfig, gridDimZ);
SPILLWAY_SAME_PLACE(CuLaunchConfig, block_x, CUlaunchConfig, blockDimX);
SPILLWAY_SAME_PLACE(CuLaunchConfig, block_y, CUlaunchConfig, blockDimY);
SPILLWAY_SAME_PLACE(CuLaunchConfig, block_z, CUlaunchConfig, blockDimZ);
SPILLWAY_SAME_PLACE(CuLaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SPILLWAY_SAME_PLACE(CuLaunchConfig, stream, CUlaunchConfig, hStream);
SPILLWAY_SAME_PLACE(CuLaunchConfig, attributes, CUlaunchConfig, attrs);
SPILLWAY_SAME_PLACE(CuLaunchConfig, attribute_count, CUlaunchConfig, numAttrs);
static_assert(alignof(CuLaunchAttribute) == alignof(CUlaunchAttribute));
SPILLWAY_SAME_SIZE(CuLaunchAttribute, CUlaunchAttribute);
SPILLWAY_SAME_PLACE(CuLaunchAttribute, id, CUlaunchAttribute, id);
SPILLWAY_SAME_PLACE(CuLaunchAttribute, value, CUlaunchAttribute, value);
SPILLWAY_EQUAL(kCuAttributeIgnore, CU_LAUNCH_ATTRIBUTE_IGNORE);
SPILLWAY_EQUAL(kCuAttributeCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SPILLWAY_EQUAL(kCuAttributeUpdatedByDevice, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
SPILLWAY_EQUAL(kCuAttributeClusterSize, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SPILLWAY_EQUAL(kCuAttributeClusterScheduling,
               CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
SPILLWAY_EQUAL(kCuAttributeStartsEarly, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SPILLWAY_EQUAL(kCuAttributePriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
#if CUDA_VERSION >= 12080
SPILLWAY_EQUAL(kCuAttributePreferredClusterSize, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION);
#endif

TEST(DriverAbi, IsThatOfTheToolkit) {
  EXPECT_EQ(std::uintptr_t{kCuStreamLegacy}, reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY));
  EXPECT_EQ(std::uintptr_t{kCuStreamPerThread},
            reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD));
}

}  // namespace
}  // namespace spillway::cuda

#else

TEST(DriverAbi, IsThatOfTheToolkit) { GTEST_SKIP() << "no cuda.h: run tools/cuda-headers.sh"; }

#endif
