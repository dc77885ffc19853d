// The driver's calls that are caught on their way, by symbol: one name has several functions, by
// version and by what stream 0 means. Layer: interpose, cuda.
// SPILLWAY_HOOKED_CALLS(X) is X(symbol, parameters) for each; all return CuResult.
// SPILLWAY_ASKED_CALLS(X) is the same for those that are only called by us.
#pragma once

#include "interpose/cuda/call_types.h"

// With the twin whose stream 0 is the calling thread's own default stream.
#define SPILLWAY_HOOKED_PAIR(X, symbol, suffix, parameters) \
  X(symbol, parameters)                                     \
  X(symbol##suffix, parameters)

// clang-format off
#define SPILLWAY_HOOKED_CALLS(X)                                                                   \
  X(cuGetProcAddress, (const char* name, void** function, int version, std::uint64_t flags))       \
  X(cuGetProcAddress_v2, (const char* name, void** function, int version, std::uint64_t flags,     \
                          CuSymbolStatus* status))                                                 \
                                                                                                   \
  SPILLWAY_HOOKED_PAIR(X, cuLaunchKernel, _ptsz,                                                   \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                   \
     void** parameters, void** extra))                                                             \
  SPILLWAY_HOOKED_PAIR(X, cuLaunchKernelEx, _ptsz,                                                 \
    (const CuLaunchConfig* config, CuFunction function, void** parameters, void** extra))          \
  SPILLWAY_HOOKED_PAIR(X, cuLaunchCooperativeKernel, _ptsz,                                        \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                   \
     void** parameters))                                                                           \
  SPILLWAY_HOOKED_PAIR(X, cuGraphLaunch, _ptsz, (CuGraphExec graph, CuStream stream))              \
  X(cuLaunch, (CuFunction function))                                                               \
  X(cuLaunchGrid, (CuFunction function, int width, int height))                                    \
  X(cuLaunchGridAsync, (CuFunction function, int width, int height, CuStream stream))              \
  X(cuLaunchCooperativeKernelMultiDevice, (void* launches, unsigned devices, unsigned flags))      \
                                                                                                   \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy, _ptds, (CuAddress to, CuAddress from, std::size_t bytes))      \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyAsync, _ptsz,                                                    \
    (CuAddress to, CuAddress from, std::size_t bytes, CuStream stream))                            \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyHtoD_v2, _ptds,                                                  \
    (CuAddress to, const void* from, std::size_t bytes))                                           \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyHtoDAsync_v2, _ptsz,                                             \
    (CuAddress to, const void* from, std::size_t bytes, CuStream stream))                          \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyDtoH_v2, _ptds, (void* to, CuAddress from, std::size_t bytes))   \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyDtoHAsync_v2, _ptsz,                                             \
    (void* to, CuAddress from, std::size_t bytes, CuStream stream))                                \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyDtoD_v2, _ptds,                                                  \
    (CuAddress to, CuAddress from, std::size_t bytes))                                             \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyDtoDAsync_v2, _ptsz,                                             \
    (CuAddress to, CuAddress from, std::size_t bytes, CuStream stream))                            \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyPeer, _ptds,                                                     \
    (CuAddress to, CuContext to_context, CuAddress from, CuContext from_context,                   \
     std::size_t bytes))                                                                           \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyPeerAsync, _ptsz,                                                \
    (CuAddress to, CuContext to_context, CuAddress from, CuContext from_context,                   \
     std::size_t bytes, CuStream stream))                                                          \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyDtoA_v2, _ptds,                                                  \
    (CuArray to, std::size_t at, CuAddress from, std::size_t bytes))                               \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyAtoD_v2, _ptds,                                                  \
    (CuAddress to, CuArray from, std::size_t at, std::size_t bytes))                               \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy2D_v2, _ptds, (const CuCopy2d* copy))                            \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy2DUnaligned_v2, _ptds, (const CuCopy2d* copy))                   \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy2DAsync_v2, _ptsz, (const CuCopy2d* copy, CuStream stream))      \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy3D_v2, _ptds, (const CuCopy3d* copy))                            \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy3DAsync_v2, _ptsz, (const CuCopy3d* copy, CuStream stream))      \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy3DPeer, _ptds, (const CuCopy3d* copy))                           \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy3DPeerAsync, _ptsz, (const CuCopy3d* copy, CuStream stream))     \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyBatchAsync, _ptsz,                                               \
    (CuAddress* to, CuAddress* from, std::size_t* bytes, std::size_t count, void* attributes,      \
     std::size_t* attribute_of, std::size_t attribute_count, std::size_t* failed,                  \
     CuStream stream))                                                                             \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpyBatchAsync_v2, _ptsz,                                            \
    (CuAddress* to, CuAddress* from, std::size_t* bytes, std::size_t count, void* attributes,      \
     std::size_t* attribute_of, std::size_t attribute_count, CuStream stream))                     \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy3DBatchAsync, _ptsz,                                             \
    (std::size_t count, void* copies, std::size_t* failed, unsigned long long flags,               \
     CuStream stream))                                                                             \
  SPILLWAY_HOOKED_PAIR(X, cuMemcpy3DBatchAsync_v2, _ptsz,                                          \
    (std::size_t count, void* copies, unsigned long long flags, CuStream stream))                  \
                                                                                                   \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD8_v2, _ptds,                                                    \
    (CuAddress to, unsigned char value, std::size_t count))                                        \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD16_v2, _ptds,                                                   \
    (CuAddress to, unsigned short value, std::size_t count))                                       \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD32_v2, _ptds,                                                   \
    (CuAddress to, unsigned value, std::size_t count))                                             \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD2D8_v2, _ptds,                                                  \
    (CuAddress to, std::size_t pitch_bytes, unsigned char value, std::size_t width,                \
     std::size_t height))                                                                          \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD2D16_v2, _ptds,                                                 \
    (CuAddress to, std::size_t pitch_bytes, unsigned short value, std::size_t width,               \
     std::size_t height))                                                                          \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD2D32_v2, _ptds,                                                 \
    (CuAddress to, std::size_t pitch_bytes, unsigned value, std::size_t width,                     \
     std::size_t height))                                                                          \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD8Async, _ptsz,                                                  \
    (CuAddress to, unsigned char value, std::size_t count, CuStream stream))                       \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD16Async, _ptsz,                                                 \
    (CuAddress to, unsigned short value, std::size_t count, CuStream stream))                      \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD32Async, _ptsz,                                                 \
    (CuAddress to, unsigned value, std::size_t count, CuStream stream))                            \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD2D8Async, _ptsz,                                                \
    (CuAddress to, std::size_t pitch_bytes, unsigned char value, std::size_t width,                \
     std::size_t height, CuStream stream))                                                         \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD2D16Async, _ptsz,                                               \
    (CuAddress to, std::size_t pitch_bytes, unsigned short value, std::size_t width,               \
     std::size_t height, CuStream stream))                                                         \
  SPILLWAY_HOOKED_PAIR(X, cuMemsetD2D32Async, _ptsz,                                               \
    (CuAddress to, std::size_t pitch_bytes, unsigned value, std::size_t width,                     \
     std::size_t height, CuStream stream))                                                         \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWriteValue32, _ptsz,                                             \
    (CuStream stream, CuAddress address, std::uint32_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWriteValue32_v2, _ptsz,                                          \
    (CuStream stream, CuAddress address, std::uint32_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWaitValue32, _ptsz,                                              \
    (CuStream stream, CuAddress address, std::uint32_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWaitValue32_v2, _ptsz,                                           \
    (CuStream stream, CuAddress address, std::uint32_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWriteValue64, _ptsz,                                             \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWriteValue64_v2, _ptsz,                                          \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWaitValue64, _ptsz,                                              \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWaitValue64_v2, _ptsz,                                           \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))                     \
  SPILLWAY_HOOKED_PAIR(X, cuStreamBatchMemOp, _ptsz,                                               \
    (CuStream stream, unsigned count, CuStreamOperation* operations, unsigned flags))              \
  SPILLWAY_HOOKED_PAIR(X, cuStreamBatchMemOp_v2, _ptsz,                                            \
    (CuStream stream, unsigned count, CuStreamOperation* operations, unsigned flags))              \
                                                                                                   \
  X(cuMemAlloc_v2, (CuAddress* address, std::size_t bytes))                                        \
  X(cuMemAllocPitch_v2, (CuAddress* address, std::size_t* pitch_bytes, std::size_t width_bytes,    \
                         std::size_t height, unsigned element_bytes))                              \
  X(cuMemFree_v2, (CuAddress address))                                                             \
  SPILLWAY_HOOKED_PAIR(X, cuMemAllocAsync, _ptsz,                                                  \
    (CuAddress* address, std::size_t bytes, CuStream stream))                                      \
  SPILLWAY_HOOKED_PAIR(X, cuMemAllocFromPoolAsync, _ptsz,                                          \
    (CuAddress* address, std::size_t bytes, CuMemPool pool, CuStream stream))                      \
  SPILLWAY_HOOKED_PAIR(X, cuMemFreeAsync, _ptsz, (CuAddress address, CuStream stream))             \
  X(cuMemGetInfo_v2, (std::size_t* free_bytes, std::size_t* total_bytes))                          \
  X(cuMemPoolCreate, (CuMemPool* pool, const CuMemPoolProperties* properties))                     \
  X(cuMemPoolDestroy, (CuMemPool pool))                                                            \
  X(cuDeviceSetMemPool, (CuDevice device, CuMemPool pool))                                         \
  X(cuMemSetMemPool, (CuLocation* location, CuAllocationType type, CuMemPool pool))                \
  X(cuMemPoolGetAttribute, (CuMemPool pool, CuPoolAttribute attribute, void* value))               \
  X(cuMemPoolSetAttribute, (CuMemPool pool, CuPoolAttribute attribute, void* value))               \
  X(cuMemPoolTrimTo, (CuMemPool pool, std::size_t bytes))                                          \
  X(cuMemPoolSetAccess, (CuMemPool pool, const CuAccessDescription* descriptions,                  \
                         std::size_t count))                                                       \
  X(cuCtxEnablePeerAccess, (CuContext peer, unsigned flags))                                       \
                                                                                                   \
  X(cuMemAddressReserve, (CuAddress* address, std::size_t bytes, std::size_t alignment,            \
                          CuAddress wish, unsigned long long flags))                               \
  X(cuMemAddressFree, (CuAddress address, std::size_t bytes))                                      \
  X(cuMemCreate, (CuMemHandle* handle, std::size_t bytes,                                          \
                  const CuAllocationProperties* properties, unsigned long long flags))             \
  X(cuMemRelease, (CuMemHandle handle))                                                            \
  X(cuMemMap, (CuAddress address, std::size_t bytes, std::size_t offset, CuMemHandle handle,       \
               unsigned long long flags))                                                          \
  X(cuMemUnmap, (CuAddress address, std::size_t bytes))                                            \
  X(cuMemSetAccess, (CuAddress address, std::size_t bytes,                                         \
                     const CuAccessDescription* descriptions, std::size_t count))                  \
  X(cuMemGetAllocationPropertiesFromHandle,                                                        \
    (CuAllocationProperties* properties, CuMemHandle handle))                                      \
  X(cuMemExportToShareableHandle, (void* shareable, CuMemHandle handle, unsigned type,             \
                                   unsigned long long flags))                                      \
  X(cuMulticastBindMem, (CuMemHandle multicast, std::size_t at, CuMemHandle handle,                \
                         std::size_t offset, std::size_t bytes, unsigned long long flags))         \
  X(cuMulticastBindAddr, (CuMemHandle multicast, std::size_t at, CuAddress address,                \
                          std::size_t bytes, unsigned long long flags))                            \
  X(cuMemAllocManaged, (CuAddress* address, std::size_t bytes, unsigned flags))                    \
  X(cuArrayCreate_v2, (CuArray* array, const CuArrayShape* shape))                                 \
  X(cuArray3DCreate_v2, (CuArray* array, const CuArrayShape3d* shape))                             \
  X(cuArrayDestroy, (CuArray array))                                                               \
  X(cuMipmappedArrayCreate, (CuMipmaps* mipmaps, const CuArrayShape3d* shape, unsigned levels))    \
  X(cuMipmappedArrayDestroy, (CuMipmaps mipmaps))                                                  \
  X(cuGraphAddMemAllocNode, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,    \
                             std::size_t count, CuMemAllocNode* parameters))                       \
  X(cuImportExternalMemory, (CuExternalMemory* memory, const CuExternalMemoryHandle* handle))      \
  X(cuDestroyExternalMemory, (CuExternalMemory memory))                                            \
                                                                                                   \
  X(cuPointerGetAttribute, (void* data, CuPointerAttribute attribute, CuAddress address))          \
  X(cuPointerGetAttributes, (unsigned count, CuPointerAttribute* attributes, void** data,          \
                             CuAddress address))                                                   \
  X(cuPointerSetAttribute, (const void* value, CuPointerAttribute attribute, CuAddress address))   \
  X(cuMemGetAddressRange_v2, (CuAddress* start, std::size_t* bytes, CuAddress address))            \
  X(cuMemGetAccess, (unsigned long long* flags, const CuLocation* location, CuAddress address))    \
  X(cuIpcGetMemHandle, (CuIpcHandle * handle, CuAddress address))                                  \
  X(cuIpcOpenMemHandle, (CuAddress* address, CuIpcHandle handle, unsigned flags))                  \
  X(cuIpcOpenMemHandle_v2, (CuAddress* address, CuIpcHandle handle, unsigned flags))               \
  X(cuIpcCloseMemHandle, (CuAddress address))                                                      \
  X(cuMemPoolExportPointer, (void* data, CuAddress address))                                       \
  X(cuMemRetainAllocationHandle, (CuMemHandle* handle, void* address))                             \
  X(cuMemGetHandleForAddressRange, (void* handle, CuAddress address, std::size_t bytes,            \
                                    unsigned type, unsigned long long flags))                      \
  X(cuTensorMapEncodeTiled,                                                                        \
    (CuTensorMap* map, unsigned type, unsigned rank, void* address, const std::uint64_t* sizes,    \
     const std::uint64_t* strides_bytes, const std::uint32_t* box, const std::uint32_t* steps,     \
     unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill))                    \
  X(cuTensorMapEncodeIm2col,                                                                       \
    (CuTensorMap* map, unsigned type, unsigned rank, void* address, const std::uint64_t* sizes,    \
     const std::uint64_t* strides_bytes, const int* lower, const int* upper, unsigned channels,    \
     unsigned pixels, const std::uint32_t* steps, unsigned interleave, unsigned swizzle,           \
     unsigned promotion, unsigned fill))                                                           \
  X(cuTensorMapEncodeIm2colWide,                                                                   \
    (CuTensorMap* map, unsigned type, unsigned rank, void* address, const std::uint64_t* sizes,    \
     const std::uint64_t* strides_bytes, int lower, int upper, unsigned channels,                  \
     unsigned pixels, const std::uint32_t* steps, unsigned interleave, unsigned mode,              \
     unsigned swizzle, unsigned promotion, unsigned fill))                                         \
  X(cuTensorMapReplaceAddress, (CuTensorMap* map, void* address))                                  \
  X(cuTexObjectCreate, (std::uint64_t* texture, const CuResource* resource,                        \
                        const void* description, const void* view))                                \
                                                                                                   \
  SPILLWAY_HOOKED_PAIR(X, cuStreamSynchronize, _ptsz, (CuStream stream))                           \
  X(cuEventSynchronize, (CuEvent event))                                                           \
  X(cuCtxSynchronize, ())                                                                          \
  X(cuCtxSynchronize_v2, (CuContext context))                                                      \
  SPILLWAY_HOOKED_PAIR(X, cuEventRecord, _ptsz, (CuEvent event, CuStream stream))                  \
  SPILLWAY_HOOKED_PAIR(X, cuEventRecordWithFlags, _ptsz,                                           \
    (CuEvent event, CuStream stream, unsigned flags))                                              \
  SPILLWAY_HOOKED_PAIR(X, cuStreamWaitEvent, _ptsz,                                                \
    (CuStream stream, CuEvent event, unsigned flags))                                              \
  X(cuStreamDestroy, (CuStream stream))                                                            \
  X(cuStreamDestroy_v2, (CuStream stream))                                                         \
  X(cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags))                            \
  X(cuMemAllocHost_v2, (void** memory, std::size_t bytes))                                         \
  X(cuMemHostRegister_v2, (void* memory, std::size_t bytes, unsigned flags))                       \
  X(cuMemFreeHost, (void* memory))                                                                 \
  X(cuMemHostUnregister, (void* memory))                                                           \
  X(cuModuleUnload, (CuModule module))                                                             \
  X(cuLibraryUnload, (CuLibrary library))                                                          \
  X(cuCtxDestroy, (CuContext context))                                                             \
  X(cuCtxDestroy_v2, (CuContext context))                                                          \
  X(cuDevicePrimaryCtxRelease, (CuDevice device))                                                  \
  X(cuDevicePrimaryCtxRelease_v2, (CuDevice device))                                               \
  X(cuDevicePrimaryCtxReset, (CuDevice device))                                                    \
  X(cuDevicePrimaryCtxReset_v2, (CuDevice device))                                                 \
                                                                                                   \
  SPILLWAY_HOOKED_PAIR(X, cuStreamBeginCapture, _ptsz, (CuStream stream))                          \
  SPILLWAY_HOOKED_PAIR(X, cuStreamBeginCapture_v2, _ptsz, (CuStream stream, unsigned mode))        \
  SPILLWAY_HOOKED_PAIR(X, cuStreamBeginCaptureToGraph, _ptsz,                                      \
    (CuStream stream, CuGraph graph, const CuGraphNode* dependencies, const void* edges,           \
     std::size_t count, unsigned mode))                                                            \
  SPILLWAY_HOOKED_PAIR(X, cuStreamEndCapture, _ptsz, (CuStream stream, CuGraph* graph))            \
  X(cuGraphInstantiate, (CuGraphExec* exec, CuGraph graph, CuGraphNode* failed, char* log,         \
                         std::size_t log_bytes))                                                   \
  X(cuGraphInstantiate_v2, (CuGraphExec* exec, CuGraph graph, CuGraphNode* failed, char* log,      \
                            std::size_t log_bytes))                                                \
  X(cuGraphInstantiateWithFlags, (CuGraphExec* exec, CuGraph graph, unsigned long long flags))     \
  SPILLWAY_HOOKED_PAIR(X, cuGraphInstantiateWithParams, _ptsz,                                     \
    (CuGraphExec* exec, CuGraph graph, void* parameters))                                          \
  X(cuGraphExecUpdate, (CuGraphExec exec, CuGraph graph, CuGraphNode* failed, unsigned* result))   \
  X(cuGraphExecUpdate_v2, (CuGraphExec exec, CuGraph graph, void* result))                         \
  X(cuGraphExecKernelNodeSetParams, (CuGraphExec exec, CuGraphNode node,                           \
                                     const CuKernelNodeV1* parameters))                            \
  X(cuGraphExecKernelNodeSetParams_v2, (CuGraphExec exec, CuGraphNode node,                        \
                                        const CuKernelNode* parameters))                           \
  X(cuGraphExecMemcpyNodeSetParams, (CuGraphExec exec, CuGraphNode node, const CuCopy3d* copy,     \
                                     CuContext context))                                           \
  X(cuGraphExecMemsetNodeSetParams, (CuGraphExec exec, CuGraphNode node, const CuMemsetNode* set,  \
                                     CuContext context))                                           \
  X(cuGraphExecHostNodeSetParams, (CuGraphExec exec, CuGraphNode node,                             \
                                   const CuHostNode* parameters))                                  \
  X(cuGraphExecChildGraphNodeSetParams, (CuGraphExec exec, CuGraphNode node, CuGraph child))       \
  X(cuGraphExecNodeSetParams, (CuGraphExec exec, CuGraphNode node, CuNodeParams* parameters))      \
  X(cuGraphExecBatchMemOpNodeSetParams, (CuGraphExec exec, CuGraphNode node,                       \
                                         const CuStreamOperationsNode* operations))                \
  X(cuGraphNodeSetEnabled, (CuGraphExec exec, CuGraphNode node, unsigned enabled))                 \
  X(cuGraphAddMemcpyNode, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,      \
                           std::size_t count, const CuCopy3d* copy, CuContext context))            \
  X(cuGraphAddMemsetNode, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,      \
                           std::size_t count, const CuMemsetNode* set, CuContext context))         \
  X(cuGraphAddBatchMemOpNode, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,  \
                               std::size_t count, const CuStreamOperationsNode* operations))       \
  X(cuGraphAddNode, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,            \
                     std::size_t count, CuNodeParams* parameters))                                 \
  X(cuGraphAddNode_v2, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,         \
                        const void* edges, std::size_t count, CuNodeParams* parameters))           \
  X(cuGraphMemcpyNodeSetParams, (CuGraphNode node, const CuCopy3d* copy))                          \
  X(cuGraphMemsetNodeSetParams, (CuGraphNode node, const CuMemsetNode* set))                       \
  X(cuGraphBatchMemOpNodeSetParams, (CuGraphNode node, const CuStreamOperationsNode* operations))  \
  X(cuGraphNodeSetParams, (CuGraphNode node, CuNodeParams* parameters))                            \
  X(cuGraphDestroyNode, (CuGraphNode node))                                                        \
  X(cuGraphExecDestroy, (CuGraphExec exec))                                                        \
  X(cuGraphDestroy, (CuGraph graph))                                                               \
  X(cuGraphClone, (CuGraph* clone, CuGraph graph))

#define SPILLWAY_ASKED_CALLS(X)                                                                    \
  X(cuCtxGetDevice, (CuDevice* device))                                                            \
  X(cuCtxGetCurrent, (CuContext* context))                                                         \
  X(cuCtxPushCurrent_v2, (CuContext context))                                                      \
  X(cuCtxPopCurrent_v2, (CuContext* context))                                                      \
  X(cuDeviceGetDefaultMemPool, (CuMemPool* pool, CuDevice device))                                 \
  X(cuDeviceGetMemPool, (CuMemPool* pool, CuDevice device))                                        \
  X(cuDevicePrimaryCtxRetain, (CuContext* context, CuDevice device))                               \
  X(cuDevicePrimaryCtxGetState, (CuDevice device, unsigned* flags, int* active))                   \
  X(cuMemGetAllocationGranularity, (std::size_t* bytes,                                            \
                                    const CuAllocationProperties* properties,                      \
                                    CuGranularity granularity))                                    \
  X(cuModuleLoadData, (CuModule* module, const void* image))                                       \
  X(cuModuleGetFunction, (CuFunction* function, CuModule module, const char* name))                \
  X(cuStreamCreate, (CuStream* stream, unsigned flags))                                            \
  X(cuStreamGetCtx, (CuStream stream, CuContext* context))                                         \
  X(cuStreamQuery, (CuStream stream))                                                              \
  X(cuThreadExchangeStreamCaptureMode, (unsigned* mode))                                           \
  X(cuStreamIsCapturing, (CuStream stream, CuCaptureStatus* status))                               \
  X(cuStreamGetCaptureInfo, (CuStream stream, CuCaptureStatus* status, std::uint64_t* id))         \
  X(cuGraphGetNodes, (CuGraph graph, CuGraphNode* nodes, std::size_t* count))                      \
  X(cuGraphGetEdges, (CuGraph graph, CuGraphNode* from, CuGraphNode* to, std::size_t* count))      \
  X(cuGraphGetEdges_v2, (CuGraph graph, CuGraphNode* from, CuGraphNode* to, CuGraphEdge* edges,    \
                         std::size_t* count))                                                      \
  X(cuGraphCreate, (CuGraph* graph, unsigned flags))                                               \
  X(cuGraphAddHostNode, (CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,        \
                         std::size_t count, const CuHostNode* parameters))                         \
  X(cuGraphHostNodeGetParams, (CuGraphNode node, CuHostNode* parameters))                          \
  X(cuGraphKernelNodeGetAttribute, (CuGraphNode node, unsigned attribute, void* value))            \
  X(cuEventCreate, (CuEvent* event, unsigned flags))                                               \
  X(cuEventDestroy_v2, (CuEvent event))                                                            \
  X(cuEventQuery, (CuEvent event))                                                                 \
  X(cuGraphNodeGetType, (CuGraphNode node, CuNodeType* type))                                      \
  X(cuGraphKernelNodeGetParams_v2, (CuGraphNode node, CuKernelNode* parameters))                   \
  X(cuGraphMemcpyNodeGetParams, (CuGraphNode node, CuCopy3d* copy))                                \
  X(cuGraphMemsetNodeGetParams, (CuGraphNode node, CuMemsetNode* set))                             \
  X(cuGraphChildGraphNodeGetGraph, (CuGraphNode node, CuGraph* child))                             \
  X(cuGraphBatchMemOpNodeGetParams, (CuGraphNode node, CuStreamOperationsNode* operations))        \
  X(cuFuncGetName, (const char** name, CuFunction function))                                       \
  X(cuKernelGetName, (const char** name, CuKernel kernel))                                         \
  X(cuFuncGetParamInfo, (CuFunction function, std::size_t index, std::size_t* offset,              \
                         std::size_t* bytes))                                                      \
  X(cuKernelGetParamInfo, (CuKernel kernel, std::size_t index, std::size_t* offset,                \
                           std::size_t* bytes))
// clang-format on
