// Our declarations of the calls that are caught against the toolkit's own header, where it is
// installed: every signature, structure and value. Compiling it is the test.
#include <gtest/gtest.h>

#if __has_include(<cuda.h>)

// The header also declares the symbols behind its macros with this.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(*-reserved-identifier)
#include <cuda.h>

#include "interpose/cuda/hooks/hooked_calls.h"
#include "platform/cuda/same_call.h"

namespace spillway::cuda {
namespace {

#define SPILLWAY_COMPARE(symbol, parameters) \
  static_assert(SameCall<CuResult parameters, decltype(::symbol)>::value, #symbol);
SPILLWAY_HOOKED_CALLS(SPILLWAY_COMPARE)
SPILLWAY_ASKED_CALLS(SPILLWAY_COMPARE)
#undef SPILLWAY_COMPARE

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
SPILLWAY_EQUAL(CuPointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SPILLWAY_EQUAL(CuPointerAttribute::kIsDecompressCapable,
               CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE);
SPILLWAY_EQUAL(CuPoolAttribute::kReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SPILLWAY_EQUAL(CuPoolAttribute::kReservedCurrent, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SPILLWAY_EQUAL(CuPoolAttribute::kUsedHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SPILLWAY_EQUAL(CuCaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SPILLWAY_EQUAL(kCuResourceLinear, CU_RESOURCE_TYPE_LINEAR);
SPILLWAY_EQUAL(kCuResourcePitch2d, CU_RESOURCE_TYPE_PITCH2D);

SPILLWAY_SAME_PLACE(CuCopy2d, from.device, CUDA_MEMCPY2D, srcDevice);
SPILLWAY_SAME_PLACE(CuCopy2d, to.pitch_bytes, CUDA_MEMCPY2D, dstPitch);
SPILLWAY_SAME_PLACE(CuCopy2d, height, CUDA_MEMCPY2D, Height);
SPILLWAY_SAME_PLACE(CuCopy3d, from.device, CUDA_MEMCPY3D, srcDevice);
SPILLWAY_SAME_PLACE(CuCopy3d, from.height, CUDA_MEMCPY3D, srcHeight);
SPILLWAY_SAME_PLACE(CuCopy3d, to.pitch_bytes, CUDA_MEMCPY3D, dstPitch);
SPILLWAY_SAME_PLACE(CuCopy3d, depth, CUDA_MEMCPY3D, Depth);
using StreamWait = CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st;
static_assert(sizeof(CuStreamOperation) == sizeof(CUstreamBatchMemOpParams));
static_assert(offsetof(CuStreamOperation, address) == offsetof(StreamWait, address));
static_assert(offsetof(CuStreamOperation, value) == offsetof(StreamWait, value64));
static_assert(offsetof(CuStreamOperation, flags) == offsetof(StreamWait, flags));
SPILLWAY_SAME_PLACE(CuMemsetNode, element_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize);
SPILLWAY_SAME_PLACE(CuMemsetNode, height, CUDA_MEMSET_NODE_PARAMS, height);
static_assert(sizeof(CuKernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
SPILLWAY_SAME_PLACE(CuKernelNode, launch.parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SPILLWAY_SAME_PLACE(CuKernelNode, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SPILLWAY_SAME_PLACE(CuStreamOperationsNode, operations, CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray);
static_assert(sizeof(CuNodeParams) == sizeof(CUgraphNodeParams));
SPILLWAY_SAME_PLACE(CuNodeParams, kernel.kernel, CUgraphNodeParams, kernel.kern);
SPILLWAY_SAME_PLACE(CuNodeParams, copy.copy, CUgraphNodeParams, memcpy.copyParams);
SPILLWAY_SAME_PLACE(CuNodeParams, set.height, CUgraphNodeParams, memset.height);
static_assert(sizeof(CuGraphEdge) == sizeof(CUgraphEdgeData));
SPILLWAY_SAME_PLACE(CuHostNode, argument, CUDA_HOST_NODE_PARAMS, userData);
SPILLWAY_SAME_PLACE(CuNodeParams, host.argument, CUgraphNodeParams, host.userData);
SPILLWAY_SAME_PLACE(CuNodeParams, child, CUgraphNodeParams, graph.graph);
SPILLWAY_SAME_PLACE(CuNodeParams, operations.operations, CUgraphNodeParams, memOp.paramArray);
SPILLWAY_SAME_PLACE(CuNodeParams, conditional.count, CUgraphNodeParams, conditional.size);
SPILLWAY_SAME_PLACE(CuNodeParams, conditional.graphs, CUgraphNodeParams, conditional.phGraph_out);

SPILLWAY_SAME_PLACE(CuArrayShape, format, CUDA_ARRAY_DESCRIPTOR, Format);
SPILLWAY_SAME_PLACE(CuArrayShape, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels);
SPILLWAY_SAME_PLACE(CuArrayShape3d, format, CUDA_ARRAY3D_DESCRIPTOR, Format);
SPILLWAY_SAME_PLACE(CuArrayShape3d, flags, CUDA_ARRAY3D_DESCRIPTOR, Flags);
SPILLWAY_SAME_PLACE(CuExternalMemoryHandle, bytes, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
static_assert(sizeof(CuMemPoolProperties) == sizeof(CUmemPoolProps));
SPILLWAY_SAME_PLACE(CuMemPoolProperties, location, CUmemPoolProps, location);
SPILLWAY_SAME_PLACE(CuMemPoolProperties, most_bytes, CUmemPoolProps, maxSize);
SPILLWAY_SAME_PLACE(CuMemAllocNode, bytes, CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
SPILLWAY_SAME_PLACE(CuMemAllocNode, address, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SPILLWAY_SAME_PLACE(CuNodeParams, allocation.address, CUgraphNodeParams, alloc.dptr);

TEST(HookedAbi, IsThatOfTheToolkit) {}

}  // namespace
}  // namespace spillway::cuda

#else

TEST(HookedAbi, IsThatOfTheToolkit) { GTEST_SKIP() << "no cuda.h on this machine"; }

#endif
