// The one table of the driver's calls: under which name and symbol, since which CUDA version, with
// which signature. Layer: platform, cuda.
// SPILLWAY_CUDA_CALLS(X) is X(field of Driver, symbol, version, parameters) for each; all return
// CuResult. A version is as cuDriverGetVersion counts, 1000 * major + 10 * minor, and that of the
// symbol, which for one with a suffix is later than its name's. Symbols are those whose stream 0 is
// the null stream (docs/gpu.md section 2: one name, several functions).
#pragma once

#include "platform/cuda/driver/driver_types.h"

// clang-format off
#define SPILLWAY_CUDA_CALLS(X)                                                                     \
  X(init, cuInit, 2000, (unsigned flags))                                                          \
  X(driver_version, cuDriverGetVersion, 2020, (int* version))                                      \
  X(error_name, cuGetErrorName, 6000, (CuResult error, const char** name))                         \
  X(error_string, cuGetErrorString, 6000, (CuResult error, const char** text))                     \
  X(proc_address, cuGetProcAddress_v2, 12000,                                                      \
    (const char* name, void** function, int version, std::uint64_t flags, CuSymbolStatus* status)) \
                                                                                                   \
  X(device_get, cuDeviceGet, 2000, (CuDevice* device, int ordinal))                                \
  X(device_count, cuDeviceGetCount, 2000, (int* count))                                            \
  X(device_name, cuDeviceGetName, 2000, (char* name, int bytes, CuDevice device))                  \
  X(device_uuid, cuDeviceGetUuid_v2, 11040, (CuUuid* uuid, CuDevice device))                       \
  X(device_attribute, cuDeviceGetAttribute, 2000,                                                  \
    (int* value, CuAttribute attribute, CuDevice device))                                          \
  X(device_total_memory, cuDeviceTotalMem_v2, 3020, (std::size_t* bytes, CuDevice device))         \
                                                                                                   \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, 7000, (CuContext* context, CuDevice device)) \
  X(primary_context_release, cuDevicePrimaryCtxRelease_v2, 11000, (CuDevice device))               \
  X(primary_context_state, cuDevicePrimaryCtxGetState, 7000,                                       \
    (CuDevice device, unsigned* flags, int* active))                                               \
  X(context_create, cuCtxCreate_v2, 3020, (CuContext* context, unsigned flags, CuDevice device))   \
  X(context_destroy, cuCtxDestroy_v2, 4000, (CuContext context))                                   \
  X(context_set_current, cuCtxSetCurrent, 4000, (CuContext context))                               \
  X(context_get_current, cuCtxGetCurrent, 4000, (CuContext* context))                              \
  X(context_push, cuCtxPushCurrent_v2, 4000, (CuContext context))                                  \
  X(context_pop, cuCtxPopCurrent_v2, 4000, (CuContext* context))                                   \
  X(context_device, cuCtxGetDevice, 2000, (CuDevice* device))                                      \
  X(thread_capture_mode, cuThreadExchangeStreamCaptureMode, 10010, (unsigned* mode))               \
  X(context_synchronize, cuCtxSynchronize, 2000, ())                                               \
  X(context_stream_priorities, cuCtxGetStreamPriorityRange, 5050, (int* least, int* greatest))     \
                                                                                                   \
  X(memory_info, cuMemGetInfo_v2, 3020, (std::size_t* free_bytes, std::size_t* total_bytes))       \
  X(memory_granularity, cuMemGetAllocationGranularity, 10020,                                      \
    (std::size_t* bytes, const CuAllocationProperties* properties, CuGranularity granularity))     \
  X(address_reserve, cuMemAddressReserve, 10020,                                                   \
    (CuAddress* address, std::size_t bytes, std::size_t alignment, CuAddress wish,                 \
     unsigned long long flags))                                                                    \
  X(address_free, cuMemAddressFree, 10020, (CuAddress address, std::size_t bytes))                 \
  X(memory_create, cuMemCreate, 10020,                                                             \
    (CuMemHandle* handle, std::size_t bytes, const CuAllocationProperties* properties,             \
     unsigned long long flags))                                                                    \
  X(memory_release, cuMemRelease, 10020, (CuMemHandle handle))                                     \
  X(memory_export, cuMemExportToShareableHandle, 10020,                                            \
    (void* shareable, CuMemHandle handle, CuHandleType type, unsigned long long flags))            \
  X(memory_import, cuMemImportFromShareableHandle, 10020,                                          \
    (CuMemHandle * handle, void* shareable, CuHandleType type))                                    \
  X(memory_map, cuMemMap, 10020,                                                                   \
    (CuAddress address, std::size_t bytes, std::size_t offset, CuMemHandle handle,                 \
     unsigned long long flags))                                                                    \
  X(memory_unmap, cuMemUnmap, 10020, (CuAddress address, std::size_t bytes))                       \
  X(memory_set_access, cuMemSetAccess, 10020,                                                      \
    (CuAddress address, std::size_t bytes, const CuAccessDescription* descriptions,                \
     std::size_t count))                                                                           \
  X(memory_alloc, cuMemAlloc_v2, 3020, (CuAddress* address, std::size_t bytes))                    \
  X(memory_free, cuMemFree_v2, 3020, (CuAddress address))                                          \
  X(host_alloc, cuMemHostAlloc, 2020, (void** memory, std::size_t bytes, unsigned flags))          \
  X(host_free, cuMemFreeHost, 2000, (void* memory))                                                \
  X(host_register, cuMemHostRegister_v2, 6050, (void* memory, std::size_t bytes, unsigned flags))  \
  X(host_unregister, cuMemHostUnregister, 4000, (void* memory))                                    \
  X(host_device_pointer, cuMemHostGetDevicePointer_v2, 3020,                                       \
    (CuAddress* address, void* memory, unsigned flags))                                            \
                                                                                                   \
  X(copy_in, cuMemcpyHtoDAsync_v2, 3020,                                                           \
    (CuAddress to, const void* from, std::size_t bytes, CuStream stream))                          \
  X(copy_out, cuMemcpyDtoHAsync_v2, 3020,                                                          \
    (void* to, CuAddress from, std::size_t bytes, CuStream stream))                                \
  X(copy_within, cuMemcpyDtoDAsync_v2, 3020,                                                       \
    (CuAddress to, CuAddress from, std::size_t bytes, CuStream stream))                            \
  X(copy_any, cuMemcpyAsync, 4000,                                                                 \
    (CuAddress to, CuAddress from, std::size_t bytes, CuStream stream))                            \
  X(set_bytes, cuMemsetD8Async, 3020,                                                              \
    (CuAddress to, unsigned char byte, std::size_t bytes, CuStream stream))                        \
                                                                                                   \
  X(stream_create, cuStreamCreateWithPriority, 5050,                                               \
    (CuStream* stream, unsigned flags, int priority))                                              \
  X(stream_destroy, cuStreamDestroy_v2, 4000, (CuStream stream))                                   \
  X(stream_flags, cuStreamGetFlags, 5050, (CuStream stream, unsigned* flags))                      \
  X(stream_context, cuStreamGetCtx, 9020, (CuStream stream, CuContext* context))                   \
  X(stream_synchronize, cuStreamSynchronize, 2000, (CuStream stream))                              \
  X(stream_query, cuStreamQuery, 2000, (CuStream stream))                                          \
  X(stream_wait_event, cuStreamWaitEvent, 3020, (CuStream stream, CuEvent event, unsigned flags))  \
  X(stream_write_value, cuStreamWriteValue64_v2, 11070,                                            \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))                     \
  X(stream_wait_value, cuStreamWaitValue64_v2, 11070,                                              \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))                     \
  X(event_create, cuEventCreate, 2000, (CuEvent* event, unsigned flags))                           \
  X(event_record, cuEventRecord, 2000, (CuEvent event, CuStream stream))                           \
  X(event_query, cuEventQuery, 2000, (CuEvent event))                                              \
  X(event_synchronize, cuEventSynchronize, 2000, (CuEvent event))                                  \
  X(event_elapsed, cuEventElapsedTime, 2000, (float* milliseconds, CuEvent from, CuEvent to))      \
  X(event_destroy, cuEventDestroy_v2, 4000, (CuEvent event))                                       \
                                                                                                   \
  X(launch_host_function, cuLaunchHostFunc, 10000,                                                 \
    (CuStream stream, CuHostFunction function, void* argument))                                    \
  X(launch_kernel, cuLaunchKernel, 4000,                                                           \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                   \
     void** parameters, void** extra))                                                             \
  X(launch_kernel_ex, cuLaunchKernelEx, 11060,                                                     \
    (const CuLaunchConfig* config, CuFunction function, void** parameters, void** extra))          \
  X(function_parameter, cuFuncGetParamInfo, 12040,                                                 \
    (CuFunction function, std::size_t index, std::size_t* offset, std::size_t* bytes))             \
  X(kernel_parameter, cuKernelGetParamInfo, 12040,                                                 \
    (CuKernel kernel, std::size_t index, std::size_t* offset, std::size_t* bytes))
// clang-format on
