// Our declarations of the calls that are caught against CUDA's own header: every signature,
// structure and value. Compiling it is the test. tools/cuda-headers.sh downloads the header.
#include <gtest/gtest.h>

#if __has_include(<cuda.h>)

// The header also declares the symbols behind its macros with this.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(*-reserved-identifier)
#include <cuda.h>

#include "interpose/cuda/hooks/hooked_calls.h"
#include "platform/cuda/fake_driver/program_calls.h"
#include "platform/cuda/same_call.h"

namespace spillway::cuda {
namespace {

// CUDA 12 had not all of them.
#if CUDA_VERSION >= 13000
#define SPILLWAY_COMPARE(symbol, parameters) \
  static_assert(SameCall<CuResult parameters, decltype(::symbol)>::value, #symbol);
SPILLWAY_HOOKED_CALLS(SPILLWAY_COMPARE)
SPILLWAY_ASKED_CALLS(SPILLWAY_COMPARE)
#undef SPILLWAY_COMPARE
#define SPILLWAY_COMPARE(symbol, since, parameters) \
  static_assert(SameCall<CuResult parameters, decltype(::symbol)>::value, #symbol);
FAKE_PROGRAM_CALLS(SPILLWAY_COMPARE)
#undef SPILLWAY_COMPARE
#endif

SPILLWAY_EQUAL(CuMemoryType::kHost, CU_MEMORYTYPE_HOST);
SPILLWAY_EQUAL(CuMemoryType::kDevice, CU_MEMORYTYPE_DEVICE);
SPILLWAY_EQUAL(CuMemoryType::kArray, CU_MEMORYTYPE_ARRAY);
SPILLWAY_EQUAL(CuMemoryType::kUnified, CU_MEMORYTYPE_UNIFIED);
SPILLWAY_EQUAL(CuStreamOperationType::kWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SPILLWAY_EQUAL(CuStreamOperationType::kWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SPILLWAY_EQUAL(CuStreamOperationType::kWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SPILLWAY_EQUAL(CuStreamOperationType::kWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SPILLWAY_EQUAL(CuStreamOperationType::kFlushRemoteWrites, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
SPILLWAY_EQUAL(CuStreamOperationType::kBarrier, CU_STREAM_MEM_OP_BARRIER);
SPILLWAY_EQUAL(CuNodeType::kKernel, CU_GRAPH_NODE_TYPE_KERNEL);
SPILLWAY_EQUAL(CuNodeType::kCopy, CU_GRAPH_NODE_TYPE_MEMCPY);
SPILLWAY_EQUAL(CuNodeType::kMemset, CU_GRAPH_NODE_TYPE_MEMSET);
SPILLWAY_EQUAL(CuNodeType::kHost, CU_GRAPH_NODE_TYPE_HOST);
SPILLWAY_EQUAL(CuNodeType::kGraph, CU_GRAPH_NODE_TYPE_GRAPH);
SPILLWAY_EQUAL(CuNodeType::kEmpty, CU_GRAPH_NODE_TYPE_EMPTY);
SPILLWAY_EQUAL(CuNodeType::kWaitEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
SPILLWAY_EQUAL(CuNodeType::kRecordEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SPILLWAY_EQUAL(CuNodeType::kMemAlloc, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SPILLWAY_EQUAL(CuNodeType::kMemFree, CU_GRAPH_NODE_TYPE_MEM_FREE);
SPILLWAY_EQUAL(CuNodeType::kSignalSemaphore, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
SPILLWAY_EQUAL(CuNodeType::kWaitSemaphore, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
SPILLWAY_EQUAL(CuNodeType::kStreamOperations, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
SPILLWAY_EQUAL(CuNodeType::kConditional, CU_GRAPH_NODE_TYPE_CONDITIONAL);
SPILLWAY_EQUAL(CuPointerAttribute::kContext, CU_POINTER_ATTRIBUTE_CONTEXT);
SPILLWAY_EQUAL(CuPointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SPILLWAY_EQUAL(CuPointerAttribute::kDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SPILLWAY_EQUAL(CuPointerAttribute::kHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SPILLWAY_EQUAL(CuPointerAttribute::kP2pTokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS);
SPILLWAY_EQUAL(CuPointerAttribute::kSyncMemops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SPILLWAY_EQUAL(CuPointerAttribute::kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SPILLWAY_EQUAL(CuPointerAttribute::kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SPILLWAY_EQUAL(CuPointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SPILLWAY_EQUAL(CuPointerAttribute::kIsLegacyIpcCapable,
               CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SPILLWAY_EQUAL(CuPointerAttribute::kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SPILLWAY_EQUAL(CuPointerAttribute::kRangeBytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SPILLWAY_EQUAL(CuPointerAttribute::kMapped, CU_POINTER_ATTRIBUTE_MAPPED);
SPILLWAY_EQUAL(CuPointerAttribute::kAllowedHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SPILLWAY_EQUAL(CuPointerAttribute::kIsRdmaCapable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SPILLWAY_EQUAL(CuPointerAttribute::kAccessFlags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
SPILLWAY_EQUAL(CuPointerAttribute::kMemPool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SPILLWAY_EQUAL(CuPointerAttribute::kMappingBytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
SPILLWAY_EQUAL(CuPointerAttribute::kMappingStart, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
SPILLWAY_EQUAL(CuPointerAttribute::kMemoryBlockId, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
SPILLWAY_EQUAL(CuPointerAttribute::kIsDecompressCapable,
               CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE);
SPILLWAY_EQUAL(CuPoolAttribute::kReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SPILLWAY_EQUAL(CuPoolAttribute::kReservedCurrent, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SPILLWAY_EQUAL(CuPoolAttribute::kReservedHigh, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SPILLWAY_EQUAL(CuPoolAttribute::kUsedCurrent, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SPILLWAY_EQUAL(CuPoolAttribute::kUsedHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SPILLWAY_EQUAL(CuCaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE);
SPILLWAY_EQUAL(CuCaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SPILLWAY_EQUAL(CuCaptureStatus::kInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SPILLWAY_EQUAL(kCuResourceLinear, CU_RESOURCE_TYPE_LINEAR);
SPILLWAY_EQUAL(kCuResourcePitch2d, CU_RESOURCE_TYPE_PITCH2D);

SPILLWAY_SAME_SIZE(CuCopy2d, CUDA_MEMCPY2D);
SPILLWAY_SAME_PLACE(CuCopy2d, from.x_bytes, CUDA_MEMCPY2D, srcXInBytes);
SPILLWAY_SAME_PLACE(CuCopy2d, from.y, CUDA_MEMCPY2D, srcY);
SPILLWAY_SAME_PLACE(CuCopy2d, from.type, CUDA_MEMCPY2D, srcMemoryType);
SPILLWAY_SAME_PLACE(CuCopy2d, from.host, CUDA_MEMCPY2D, srcHost);
SPILLWAY_SAME_PLACE(CuCopy2d, from.device, CUDA_MEMCPY2D, srcDevice);
SPILLWAY_SAME_PLACE(CuCopy2d, from.array, CUDA_MEMCPY2D, srcArray);
SPILLWAY_SAME_PLACE(CuCopy2d, from.pitch_bytes, CUDA_MEMCPY2D, srcPitch);
SPILLWAY_SAME_PLACE(CuCopy2d, to.x_bytes, CUDA_MEMCPY2D, dstXInBytes);
SPILLWAY_SAME_PLACE(CuCopy2d, to.y, CUDA_MEMCPY2D, dstY);
SPILLWAY_SAME_PLACE(CuCopy2d, to.type, CUDA_MEMCPY2D, dstMemoryType);
SPILLWAY_SAME_PLACE(CuCopy2d, to.host, CUDA_MEMCPY2D, dstHost);
SPILLWAY_SAME_PLACE(CuCopy2d, to.device, CUDA_MEMCPY2D, dstDevice);
SPILLWAY_SAME_PLACE(CuCopy2d, to.array, CUDA_MEMCPY2D, dstArray);
SPILLWAY_SAME_PLACE(CuCopy2d, to.pitch_bytes, CUDA_MEMCPY2D, dstPitch);
SPILLWAY_SAME_PLACE(CuCopy2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes);
SPILLWAY_SAME_PLACE(CuCopy2d, height, CUDA_MEMCPY2D, Height);
SPILLWAY_SAME_SIZE(CuCopy3d, CUDA_MEMCPY3D);
SPILLWAY_SAME_PLACE(CuCopy3d, from.x_bytes, CUDA_MEMCPY3D, srcXInBytes);
SPILLWAY_SAME_PLACE(CuCopy3d, from.y, CUDA_MEMCPY3D, srcY);
SPILLWAY_SAME_PLACE(CuCopy3d, from.z, CUDA_MEMCPY3D, srcZ);
SPILLWAY_SAME_PLACE(CuCopy3d, from.level, CUDA_MEMCPY3D, srcLOD);
SPILLWAY_SAME_PLACE(CuCopy3d, from.type, CUDA_MEMCPY3D, srcMemoryType);
SPILLWAY_SAME_PLACE(CuCopy3d, from.host, CUDA_MEMCPY3D, srcHost);
SPILLWAY_SAME_PLACE(CuCopy3d, from.device, CUDA_MEMCPY3D, srcDevice);
SPILLWAY_SAME_PLACE(CuCopy3d, from.array, CUDA_MEMCPY3D, srcArray);
SPILLWAY_SAME_PLACE(CuCopy3d, from.pitch_bytes, CUDA_MEMCPY3D, srcPitch);
SPILLWAY_SAME_PLACE(CuCopy3d, from.height, CUDA_MEMCPY3D, srcHeight);
SPILLWAY_SAME_PLACE(CuCopy3d, to.x_bytes, CUDA_MEMCPY3D, dstXInBytes);
SPILLWAY_SAME_PLACE(CuCopy3d, to.y, CUDA_MEMCPY3D, dstY);
SPILLWAY_SAME_PLACE(CuCopy3d, to.z, CUDA_MEMCPY3D, dstZ);
SPILLWAY_SAME_PLACE(CuCopy3d, to.level, CUDA_MEMCPY3D, dstLOD);
SPILLWAY_SAME_PLACE(CuCopy3d, to.type, CUDA_MEMCPY3D, dstMemoryType);
SPILLWAY_SAME_PLACE(CuCopy3d, to.host, CUDA_MEMCPY3D, dstHost);
SPILLWAY_SAME_PLACE(CuCopy3d, to.device, CUDA_MEMCPY3D, dstDevice);
SPILLWAY_SAME_PLACE(CuCopy3d, to.array, CUDA_MEMCPY3D, dstArray);
SPILLWAY_SAME_PLACE(CuCopy3d, to.pitch_bytes, CUDA_MEMCPY3D, dstPitch);
SPILLWAY_SAME_PLACE(CuCopy3d, to.height, CUDA_MEMCPY3D, dstHeight);
SPILLWAY_SAME_PLACE(CuCopy3d, width_bytes, CUDA_MEMCPY3D, WidthInBytes);
SPILLWAY_SAME_PLACE(CuCopy3d, height, CUDA_MEMCPY3D, Height);
SPILLWAY_SAME_PLACE(CuCopy3d, depth, CUDA_MEMCPY3D, Depth);
SPILLWAY_SAME_PLACE(CuCopy3d, from.context, CUDA_MEMCPY3D_PEER, srcContext);
SPILLWAY_SAME_PLACE(CuCopy3d, to.context, CUDA_MEMCPY3D_PEER, dstContext);
using StreamWait = CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st;
using StreamWrite = CUstreamBatchMemOpParams::CUstreamMemOpWriteValueParams_st;
SPILLWAY_SAME_SIZE(CuStreamOperation, CUstreamBatchMemOpParams);
SPILLWAY_SAME_PLACE(CuStreamOperation, type, CUstreamBatchMemOpParams, operation);
SPILLWAY_SAME_PLACE(CuStreamOperation, address, StreamWait, address);
SPILLWAY_SAME_PLACE(CuStreamOperation, value, StreamWait, value64);
SPILLWAY_SAME_PLACE(CuStreamOperation, flags, StreamWait, flags);
SPILLWAY_SAME_PLACE(CuStreamOperation, address, StreamWrite, address);
SPILLWAY_SAME_PLACE(CuStreamOperation, value, StreamWrite, value64);
SPILLWAY_SAME_PLACE(CuStreamOperation, flags, StreamWrite, flags);
SPILLWAY_SAME_SIZE(CuMemsetNode, CUDA_MEMSET_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuMemsetNode, to, CUDA_MEMSET_NODE_PARAMS, dst);
SPILLWAY_SAME_PLACE(CuMemsetNode, pitch_bytes, CUDA_MEMSET_NODE_PARAMS, pitch);
SPILLWAY_SAME_PLACE(CuMemsetNode, value, CUDA_MEMSET_NODE_PARAMS, value);
SPILLWAY_SAME_PLACE(CuMemsetNode, element_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize);
SPILLWAY_SAME_PLACE(CuMemsetNode, width, CUDA_MEMSET_NODE_PARAMS, width);
SPILLWAY_SAME_PLACE(CuMemsetNode, height, CUDA_MEMSET_NODE_PARAMS, height);
SPILLWAY_SAME_SIZE(CuKernelNodeV1, CUDA_KERNEL_NODE_PARAMS_v1);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, function, CUDA_KERNEL_NODE_PARAMS_v1, func);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, grid_x, CUDA_KERNEL_NODE_PARAMS_v1, gridDimX);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, grid_y, CUDA_KERNEL_NODE_PARAMS_v1, gridDimY);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, grid_z, CUDA_KERNEL_NODE_PARAMS_v1, gridDimZ);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, block_x, CUDA_KERNEL_NODE_PARAMS_v1, blockDimX);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, block_y, CUDA_KERNEL_NODE_PARAMS_v1, blockDimY);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, block_z, CUDA_KERNEL_NODE_PARAMS_v1, blockDimZ);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, parameters, CUDA_KERNEL_NODE_PARAMS_v1, kernelParams);
SPILLWAY_SAME_PLACE(CuKernelNodeV1, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra);
SPILLWAY_SAME_SIZE(CuKernelNode, CUDA_KERNEL_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuKernelNode, launch.parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SPILLWAY_SAME_PLACE(CuKernelNode, launch.extra, CUDA_KERNEL_NODE_PARAMS, extra);
SPILLWAY_SAME_PLACE(CuKernelNode, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SPILLWAY_SAME_PLACE(CuKernelNode, context, CUDA_KERNEL_NODE_PARAMS, ctx);
SPILLWAY_SAME_SIZE(CuCopyNode, CUDA_MEMCPY_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuCopyNode, flags, CUDA_MEMCPY_NODE_PARAMS, flags);
SPILLWAY_SAME_PLACE(CuCopyNode, reserved, CUDA_MEMCPY_NODE_PARAMS, reserved);
SPILLWAY_SAME_PLACE(CuCopyNode, context, CUDA_MEMCPY_NODE_PARAMS, copyCtx);
SPILLWAY_SAME_PLACE(CuCopyNode, copy, CUDA_MEMCPY_NODE_PARAMS, copyParams);
SPILLWAY_SAME_SIZE(CuHostNode, CUDA_HOST_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuHostNode, function, CUDA_HOST_NODE_PARAMS, fn);
SPILLWAY_SAME_PLACE(CuHostNode, argument, CUDA_HOST_NODE_PARAMS, userData);
SPILLWAY_SAME_SIZE(CuStreamOperationsNode, CUDA_BATCH_MEM_OP_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuStreamOperationsNode, context, CUDA_BATCH_MEM_OP_NODE_PARAMS, ctx);
SPILLWAY_SAME_PLACE(CuStreamOperationsNode, count, CUDA_BATCH_MEM_OP_NODE_PARAMS, count);
SPILLWAY_SAME_PLACE(CuStreamOperationsNode, operations, CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray);
SPILLWAY_SAME_PLACE(CuStreamOperationsNode, flags, CUDA_BATCH_MEM_OP_NODE_PARAMS, flags);
SPILLWAY_SAME_SIZE(CuConditionalNode, CUDA_CONDITIONAL_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuConditionalNode, handle, CUDA_CONDITIONAL_NODE_PARAMS, handle);
SPILLWAY_SAME_PLACE(CuConditionalNode, type, CUDA_CONDITIONAL_NODE_PARAMS, type);
SPILLWAY_SAME_PLACE(CuConditionalNode, count, CUDA_CONDITIONAL_NODE_PARAMS, size);
SPILLWAY_SAME_PLACE(CuConditionalNode, graphs, CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out);
#if CUDA_VERSION >= 13000
SPILLWAY_SAME_PLACE(CuConditionalNode, context, CUDA_CONDITIONAL_NODE_PARAMS, ctx);
#endif
SPILLWAY_SAME_SIZE(CuNodeParams, CUgraphNodeParams);
SPILLWAY_SAME_PLACE(CuNodeParams, type, CUgraphNodeParams, type);
SPILLWAY_SAME_PLACE(CuNodeParams, reserved, CUgraphNodeParams, reserved0);
SPILLWAY_SAME_PLACE(CuNodeParams, padding, CUgraphNodeParams, reserved1);
SPILLWAY_SAME_PLACE(CuNodeParams, reserved_end, CUgraphNodeParams, reserved2);
SPILLWAY_SAME_PLACE(CuNodeParams, kernel.launch.function, CUgraphNodeParams, kernel.func);
SPILLWAY_SAME_PLACE(CuNodeParams, kernel.launch.parameters, CUgraphNodeParams, kernel.kernelParams);
SPILLWAY_SAME_PLACE(CuNodeParams, kernel.launch.extra, CUgraphNodeParams, kernel.extra);
SPILLWAY_SAME_PLACE(CuNodeParams, kernel.kernel, CUgraphNodeParams, kernel.kern);
SPILLWAY_SAME_PLACE(CuNodeParams, kernel.context, CUgraphNodeParams, kernel.ctx);
SPILLWAY_SAME_PLACE(CuNodeParams, copy.context, CUgraphNodeParams, memcpy.copyCtx);
SPILLWAY_SAME_PLACE(CuNodeParams, copy.copy, CUgraphNodeParams, memcpy.copyParams);
SPILLWAY_SAME_PLACE(CuNodeParams, set.to, CUgraphNodeParams, memset.dst);
SPILLWAY_SAME_PLACE(CuNodeParams, set.pitch_bytes, CUgraphNodeParams, memset.pitch);
SPILLWAY_SAME_PLACE(CuNodeParams, set.value, CUgraphNodeParams, memset.value);
SPILLWAY_SAME_PLACE(CuNodeParams, set.element_bytes, CUgraphNodeParams, memset.elementSize);
SPILLWAY_SAME_PLACE(CuNodeParams, set.width, CUgraphNodeParams, memset.width);
SPILLWAY_SAME_PLACE(CuNodeParams, set.height, CUgraphNodeParams, memset.height);
SPILLWAY_SAME_PLACE(CuNodeParams, host.function, CUgraphNodeParams, host.fn);
SPILLWAY_SAME_PLACE(CuNodeParams, host.argument, CUgraphNodeParams, host.userData);
SPILLWAY_SAME_PLACE(CuNodeParams, child, CUgraphNodeParams, graph.graph);
SPILLWAY_SAME_PLACE(CuNodeParams, operations.context, CUgraphNodeParams, memOp.ctx);
SPILLWAY_SAME_PLACE(CuNodeParams, operations.count, CUgraphNodeParams, memOp.count);
SPILLWAY_SAME_PLACE(CuNodeParams, operations.operations, CUgraphNodeParams, memOp.paramArray);
SPILLWAY_SAME_PLACE(CuNodeParams, operations.flags, CUgraphNodeParams, memOp.flags);
SPILLWAY_SAME_PLACE(CuNodeParams, conditional.handle, CUgraphNodeParams, conditional.handle);
SPILLWAY_SAME_PLACE(CuNodeParams, conditional.type, CUgraphNodeParams, conditional.type);
SPILLWAY_SAME_PLACE(CuNodeParams, conditional.count, CUgraphNodeParams, conditional.size);
SPILLWAY_SAME_PLACE(CuNodeParams, conditional.graphs, CUgraphNodeParams, conditional.phGraph_out);
SPILLWAY_SAME_PLACE(CuNodeParams, allocation.bytes, CUgraphNodeParams, alloc.bytesize);
SPILLWAY_SAME_PLACE(CuNodeParams, allocation.address, CUgraphNodeParams, alloc.dptr);
SPILLWAY_SAME_SIZE(CuGraphEdge, CUgraphEdgeData);

SPILLWAY_SAME_SIZE(CuArrayShape, CUDA_ARRAY_DESCRIPTOR);
SPILLWAY_SAME_PLACE(CuArrayShape, width, CUDA_ARRAY_DESCRIPTOR, Width);
SPILLWAY_SAME_PLACE(CuArrayShape, height, CUDA_ARRAY_DESCRIPTOR, Height);
SPILLWAY_SAME_PLACE(CuArrayShape, format, CUDA_ARRAY_DESCRIPTOR, Format);
SPILLWAY_SAME_PLACE(CuArrayShape, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels);
SPILLWAY_SAME_SIZE(CuArrayShape3d, CUDA_ARRAY3D_DESCRIPTOR);
SPILLWAY_SAME_PLACE(CuArrayShape3d, width, CUDA_ARRAY3D_DESCRIPTOR, Width);
SPILLWAY_SAME_PLACE(CuArrayShape3d, height, CUDA_ARRAY3D_DESCRIPTOR, Height);
SPILLWAY_SAME_PLACE(CuArrayShape3d, depth, CUDA_ARRAY3D_DESCRIPTOR, Depth);
SPILLWAY_SAME_PLACE(CuArrayShape3d, format, CUDA_ARRAY3D_DESCRIPTOR, Format);
SPILLWAY_SAME_PLACE(CuArrayShape3d, channels, CUDA_ARRAY3D_DESCRIPTOR, NumChannels);
SPILLWAY_SAME_PLACE(CuArrayShape3d, flags, CUDA_ARRAY3D_DESCRIPTOR, Flags);
SPILLWAY_SAME_SIZE(CuExternalMemoryHandle, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, type, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, type);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, handle, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, handle.descriptor, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
                    handle.fd);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, bytes, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, flags, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, reserved, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, reserved);
SPILLWAY_SAME_SIZE(CuMemPoolProperties, CUmemPoolProps);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, type, CUmemPoolProps, allocType);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, exported_as, CUmemPoolProps, handleTypes);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, location, CUmemPoolProps, location);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, windows_only, CUmemPoolProps, win32SecurityAttributes);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, most_bytes, CUmemPoolProps, maxSize);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, usage, CUmemPoolProps, usage);
SPILLWAY_SAME_SIZE(CuMemAllocNode, CUDA_MEM_ALLOC_NODE_PARAMS);
SPILLWAY_SAME_PLACE(CuMemAllocNode, pool, CUDA_MEM_ALLOC_NODE_PARAMS, poolProps);
SPILLWAY_SAME_PLACE(CuMemAllocNode, access, CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs);
SPILLWAY_SAME_PLACE(CuMemAllocNode, access_count, CUDA_MEM_ALLOC_NODE_PARAMS, accessDescCount);
SPILLWAY_SAME_PLACE(CuMemAllocNode, bytes, CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
SPILLWAY_SAME_PLACE(CuMemAllocNode, address, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SPILLWAY_SAME_SIZE(CuResource, CUDA_RESOURCE_DESC);
SPILLWAY_SAME_PLACE(CuResource, type, CUDA_RESOURCE_DESC, resType);
SPILLWAY_SAME_PLACE(CuResource, from, CUDA_RESOURCE_DESC, res);
SPILLWAY_SAME_PLACE(CuResource, from.device, CUDA_RESOURCE_DESC, res.linear.devPtr);
SPILLWAY_SAME_PLACE(CuResource, from.device, CUDA_RESOURCE_DESC, res.pitch2D.devPtr);
SPILLWAY_SAME_PLACE(CuResource, flags, CUDA_RESOURCE_DESC, flags);
SPILLWAY_SAME_SIZE(CuTensorMap, CUtensorMap);
// Programs align it to 64 bytes with CUDA 12, to 128 with CUDA 13; the driver wants 64.
static_assert(alignof(CUtensorMap) % alignof(CuTensorMap) == 0);
SPILLWAY_SAME_SIZE(CuIpcHandle, CUipcMemHandle);

TEST(HookedAbi, IsThatOfTheToolkit) {}

}  // namespace
}  // namespace spillway::cuda

#else

TEST(HookedAbi, IsThatOfTheToolkit) { GTEST_SKIP() << "no cuda.h: run tools/cuda-headers.sh"; }

#endif
