// Calls that Spillway does not make but programs do, as far as tests of the interposer need them.
// FAKE_PROGRAM_CALLS(X) is X(symbol, version, parameters) for each. Fake driver.
#pragma once

#include "interpose/cuda/call_types.h"
#include "platform/cuda/driver/driver_types.h"

// What a tensor map has instead of its address is that and this, by exclusive or.
inline constexpr std::uint64_t kFakeTensorMapKey = 0x5a5a5a5a5a5a5a5a;

// clang-format off
#define FAKE_PROGRAM_CALLS(X)                                                                      \
  X(cuGetProcAddress, 11030, (const char* name, void** function, int version,                      \
                              std::uint64_t flags))                                                \
  X(cuDevicePrimaryCtxReset_v2, 11000, (CuDevice device))                                          \
  X(cuDeviceGetDefaultMemPool, 11020, (CuMemPool* pool, CuDevice device))                          \
  X(cuDeviceGetMemPool, 11020, (CuMemPool* pool, CuDevice device))                                 \
  X(cuDeviceSetMemPool, 11020, (CuDevice device, CuMemPool pool))                                  \
  X(cuMemPoolCreate, 11020, (CuMemPool* pool, const CuMemPoolProperties* properties))              \
  X(cuMemPoolDestroy, 11020, (CuMemPool pool))                                                     \
  X(cuMemAllocFromPoolAsync, 11020,                                                                \
    (CuAddress* address, std::size_t bytes, CuMemPool pool, CuStream stream))                      \
  X(cuMemAllocAsync, 11020, (CuAddress* address, std::size_t bytes, CuStream stream))              \
  X(cuMemFreeAsync, 11020, (CuAddress address, CuStream stream))                                   \
  X(cuMemPoolGetAttribute, 11020, (CuMemPool pool, CuPoolAttribute attribute, void* value))        \
  X(cuMemPoolSetAttribute, 11020, (CuMemPool pool, CuPoolAttribute attribute, void* value))        \
  X(cuMemPoolTrimTo, 11020, (CuMemPool pool, std::size_t bytes))                                   \
  X(cuMemPoolSetAccess, 11020, (CuMemPool pool, const CuAccessDescription* descriptions,           \
                                std::size_t count))                                                \
  X(cuMemcpyHtoD_v2, 3020, (CuAddress to, const void* from, std::size_t bytes))                    \
  X(cuMemcpyDtoH_v2, 3020, (void* to, CuAddress from, std::size_t bytes))                          \
  X(cuMemsetD8_v2, 3020, (CuAddress to, unsigned char value, std::size_t count))                   \
  X(cuLaunchCooperativeKernel, 9000,                                                               \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                   \
     void** parameters))                                                                           \
  X(cuLaunchKernel_ptsz, 7000,                                                                     \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                   \
     void** parameters, void** extra))                                                             \
  X(cuLaunchKernelEx_ptsz, 11060,                                                                  \
    (const CuLaunchConfig* config, CuFunction function, void** parameters, void** extra))          \
  X(cuLaunchCooperativeKernel_ptsz, 9000,                                                          \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                   \
     void** parameters))                                                                           \
  X(cuMemAllocAsync_ptsz, 11020, (CuAddress* address, std::size_t bytes, CuStream stream))         \
  X(cuMemFreeAsync_ptsz, 11020, (CuAddress address, CuStream stream))                              \
  X(cuMemcpyHtoD_v2_ptds, 7000, (CuAddress to, const void* from, std::size_t bytes))               \
  X(cuMemcpyDtoH_v2_ptds, 7000, (void* to, CuAddress from, std::size_t bytes))                     \
  X(cuMemcpyDtoDAsync_v2_ptsz, 7000,                                                               \
    (CuAddress to, CuAddress from, std::size_t bytes, CuStream stream))                            \
  X(cuMemsetD8Async_ptsz, 7000,                                                                    \
    (CuAddress to, unsigned char byte, std::size_t bytes, CuStream stream))                        \
  X(cuStreamSynchronize_ptsz, 7000, (CuStream stream))                                             \
  X(cuEventRecord_ptsz, 7000, (CuEvent event, CuStream stream))                                    \
  X(cuStreamWaitEvent_ptsz, 7000, (CuStream stream, CuEvent event, unsigned flags))                \
  X(cuEventRecordWithFlags, 11010, (CuEvent event, CuStream stream, unsigned flags))               \
  X(cuTensorMapEncodeTiled, 12000,                                                                 \
    (CuTensorMap* map, unsigned type, unsigned rank, void* address, const std::uint64_t* sizes,    \
     const std::uint64_t* strides_bytes, const std::uint32_t* box, const std::uint32_t* steps,     \
     unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill))                    \
  X(cuTensorMapReplaceAddress, 12000, (CuTensorMap* map, void* address))                           \
  X(cuStreamBatchMemOp_v2, 11070, (CuStream stream, unsigned count,                                \
                                   CuStreamOperation* operations, unsigned flags))                 \
  X(cuPointerGetAttribute, 4000, (void* data, CuPointerAttribute attribute, CuAddress address))    \
  X(cuPointerGetAttributes, 7000, (unsigned count, CuPointerAttribute* attributes, void** data,    \
                                   CuAddress address))                                             \
  X(cuMemGetAddressRange_v2, 3020, (CuAddress* start, std::size_t* bytes, CuAddress address))      \
  X(cuIpcGetMemHandle, 4010, (CuIpcHandle * handle, CuAddress address))                            \
  X(cuIpcOpenMemHandle_v2, 11000, (CuAddress* address, CuIpcHandle handle, unsigned flags))        \
  X(cuIpcCloseMemHandle, 4010, (CuAddress address))                                                \
  X(cuMemGetAccess, 10020, (unsigned long long* flags, const CuLocation* location,                 \
                            CuAddress address))                                                    \
  X(cuMemRetainAllocationHandle, 11000, (CuMemHandle* handle, void* address))                      \
  X(cuMemGetAllocationPropertiesFromHandle, 10020, (CuAllocationProperties* properties,            \
                                                    CuMemHandle handle))                           \
  X(cuMemAllocManaged, 6000, (CuAddress* address, std::size_t bytes, unsigned flags))              \
  X(cuArrayCreate_v2, 3020, (CuArray* array, const CuArrayShape* shape))                           \
  X(cuArrayDestroy, 2000, (CuArray array))                                                         \
  X(cuMipmappedArrayCreate, 5000, (CuMipmaps* mipmaps, const CuArrayShape3d* shape,                \
                                   unsigned levels))                                               \
  X(cuMipmappedArrayDestroy, 5000, (CuMipmaps mipmaps))                                            \
  X(cuGraphAddMemAllocNode, 11040, (CuGraphNode* node, CuGraph graph,                              \
                                    const CuGraphNode* dependencies, std::size_t count,            \
                                    CuMemAllocNode* parameters))                                   \
  X(cuImportExternalMemory, 10000, (CuExternalMemory* memory,                                      \
                                    const CuExternalMemoryHandle* handle))                         \
  X(cuDestroyExternalMemory, 10000, (CuExternalMemory memory))                                     \
  X(cuStreamCreate, 2000, (CuStream* stream, unsigned flags))                                      \
  X(cuFuncGetName, 12030, (const char** name, CuFunction function))                                \
  X(cuKernelGetName, 12030, (const char** name, CuKernel kernel))                                  \
  X(cuModuleLoadData, 2000, (CuModule* module, const void* image))                                 \
  X(cuModuleGetFunction, 2000, (CuFunction* function, CuModule module, const char* name))          \
  X(cuStreamBeginCapture_v2, 10010, (CuStream stream, unsigned mode))                              \
  X(cuStreamEndCapture, 10000, (CuStream stream, CuGraph* graph))                                  \
  X(cuStreamIsCapturing, 10000, (CuStream stream, CuCaptureStatus* status))                        \
  X(cuStreamGetCaptureInfo, 10010, (CuStream stream, CuCaptureStatus* status,                      \
                                    std::uint64_t* id))                                            \
  X(cuGraphInstantiateWithFlags, 11040, (CuGraphExec* exec, CuGraph graph,                         \
                                         unsigned long long flags))                                \
  X(cuGraphLaunch, 10000, (CuGraphExec exec, CuStream stream))                                     \
  X(cuGraphExecDestroy, 10000, (CuGraphExec exec))                                                 \
  X(cuGraphDestroy, 10000, (CuGraph graph))                                                        \
  X(cuGraphGetNodes, 10000, (CuGraph graph, CuGraphNode* nodes, std::size_t* count))               \
  X(cuGraphGetEdges_v2, 12030, (CuGraph graph, CuGraphNode* from, CuGraphNode* to,                 \
                                CuGraphEdge* edges, std::size_t* count))                           \
  X(cuGraphKernelNodeGetAttribute, 11000, (CuGraphNode node, unsigned attribute, void* value))     \
  X(cuGraphHostNodeGetParams, 10000, (CuGraphNode node, CuHostNode* parameters))                   \
  X(cuGraphBatchMemOpNodeGetParams, 11070, (CuGraphNode node,                                      \
                                            CuStreamOperationsNode* operations))                   \
  X(cuGraphNodeGetType, 10000, (CuGraphNode node, CuNodeType* type))                               \
  X(cuGraphKernelNodeGetParams_v2, 12000, (CuGraphNode node, CuKernelNode* parameters))            \
  X(cuGraphMemcpyNodeGetParams, 10000, (CuGraphNode node, CuCopy3d* copy))                         \
  X(cuGraphMemsetNodeGetParams, 10000, (CuGraphNode node, CuMemsetNode* set))                      \
  X(cuGraphCreate, 10000, (CuGraph* graph, unsigned flags))                                        \
  X(cuGraphClone, 10000, (CuGraph* clone, CuGraph graph))                                          \
  X(cuGraphExecUpdate_v2, 12000, (CuGraphExec exec, CuGraph graph, void* result))                  \
  X(cuGraphAddKernelNode_v2, 12000, (CuGraphNode* node, CuGraph graph,                             \
                                     const CuGraphNode* dependencies, std::size_t count,           \
                                     const CuKernelNode* kernel))                                  \
  X(cuGraphAddMemcpyNode, 10000, (CuGraphNode* node, CuGraph graph,                                \
                                  const CuGraphNode* dependencies, std::size_t count,              \
                                  const CuCopy3d* copy, CuContext context))                        \
  X(cuGraphAddMemsetNode, 10000, (CuGraphNode* node, CuGraph graph,                                \
                                  const CuGraphNode* dependencies, std::size_t count,              \
                                  const CuMemsetNode* set, CuContext context))                     \
  X(cuGraphAddHostNode, 10000, (CuGraphNode* node, CuGraph graph,                                  \
                                const CuGraphNode* dependencies, std::size_t count,                \
                                const CuHostNode* parameters))                                     \
  X(cuGraphAddChildGraphNode, 10000, (CuGraphNode* node, CuGraph graph,                            \
                                      const CuGraphNode* dependencies, std::size_t count,          \
                                      CuGraph child))                                              \
  X(cuGraphAddNode_v2, 12030, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,  \
                               const void* edges, std::size_t count, CuNodeParams* parameters))    \
  X(cuGraphChildGraphNodeGetGraph, 10000, (CuGraphNode node, CuGraph* child))                      \
  X(cuGraphMemcpyNodeSetParams, 10000, (CuGraphNode node, const CuCopy3d* copy))                   \
  X(cuGraphMemsetNodeSetParams, 10000, (CuGraphNode node, const CuMemsetNode* set))                \
  X(cuGraphNodeSetParams, 12020, (CuGraphNode node, CuNodeParams* parameters))                     \
  X(cuGraphExecKernelNodeSetParams_v2, 12000, (CuGraphExec exec, CuGraphNode node,                 \
                                               const CuKernelNode* kernel))                        \
  X(cuGraphExecMemcpyNodeSetParams, 10020, (CuGraphExec exec, CuGraphNode node,                    \
                                            const CuCopy3d* copy, CuContext context))              \
  X(cuGraphExecMemsetNodeSetParams, 10020, (CuGraphExec exec, CuGraphNode node,                    \
                                            const CuMemsetNode* set, CuContext context))           \
  X(cuGraphExecHostNodeSetParams, 10020, (CuGraphExec exec, CuGraphNode node,                      \
                                          const CuHostNode* parameters))                           \
  X(cuGraphExecChildGraphNodeSetParams, 11010, (CuGraphExec exec, CuGraphNode node,                \
                                                CuGraph child))                                    \
  X(cuGraphExecNodeSetParams, 12020, (CuGraphExec exec, CuGraphNode node,                          \
                                      CuNodeParams* parameters))                                   \
  X(cuGraphNodeSetEnabled, 11060, (CuGraphExec exec, CuGraphNode node, unsigned enabled))
// clang-format on
