// Calls that put work on a stream: copies, memsets, values, kernels, host functions. Fake driver.
#include <cstring>
#include <span>

#include "world.h"

namespace fake_cuda {
namespace {

// A copy in of pageable memory that is not larger has taken its source when the call returns; a
// larger one, and any copy out, makes the caller wait (docs/gpu.md section 4).
constexpr std::uint64_t kStagedBytes = 64ULL << 10U;

CuResult copy(World& w, Caller& caller, Op op, CuStream stream) {
  // Refused when it is issued (docs/gpu.md section 5).
  const bool to_device = op.kind != OpKind::kCopyOut;
  const bool from_device = op.kind != OpKind::kCopyIn;
  if ((to_device && !w.memory->problem({op.to, op.bytes, true}).empty()) ||
      (from_device && !w.memory->problem({op.from, op.bytes, false}).empty())) {
    return CuResult::kInvalidValue;
  }
  if (op.bytes == 0) {
    return CuResult::kSuccess;
  }
  bool waits = false;
  if (op.kind != OpKind::kCopyWithin) {
    const std::uint64_t on_host = to_device ? op.from : op.to;
    op.host_pinned = w.host->pinned(on_host, op.bytes);
    waits = !op.host_pinned && (op.kind == OpKind::kCopyOut || op.bytes > kStagedBytes);
    if (!op.host_pinned && !waits) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* source = reinterpret_cast<const std::byte*>(on_host);
      op.staged.assign(source, source + op.bytes);
    }
  }
  return w.submit(caller, stream, std::move(op), waits);
}

Op copy_op(OpKind kind, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  Op op{.kind = kind};
  op.to = to;
  op.from = from;
  op.bytes = bytes;
  return op;
}

bool value_fits(World& w, CuAddress address) {
  return address % sizeof(std::uint64_t) == 0 && w.value_problem(address).empty();
}

CuResult value(World& w, Caller& caller, OpKind kind, CuStream stream, CuAddress address,
               std::uint64_t value, unsigned flags) {
  if (!value_fits(w, address)) {
    return CuResult::kInvalidValue;
  }
  Op op{.kind = kind};
  op.to = address;
  op.bytes = sizeof(std::uint64_t);
  op.value = value;
  op.flags = flags;
  return w.submit(caller, stream, std::move(op));
}

// The parameter block, from one of the two ways in which it can be given.
CuResult take_parameters(const Kernel& kernel, void** parameters, void** extra,
                         std::vector<std::byte>* block) {
  block->assign(kernel.block_bytes, std::byte{0});
  if (extra == nullptr) {
    for (std::size_t i = 0; i < kernel.offsets.size(); ++i) {
      if (parameters == nullptr) {
        return CuResult::kInvalidValue;
      }
      std::memcpy(block->data() + kernel.offsets[i], parameters[i], kernel.bytes[i]);
    }
    return CuResult::kSuccess;
  }
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; reinterpret_cast<std::uintptr_t>(*extra) != kCuExtraEnd; extra += 2) {
    const auto what = reinterpret_cast<std::uintptr_t>(*extra);
    if (what == kCuExtraBuffer) {
      buffer = extra[1];
    } else if (what == kCuExtraBufferBytes) {
      bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return CuResult::kInvalidValue;
    }
  }
  if (parameters != nullptr || bytes < kernel.block_bytes || buffer == nullptr) {
    return CuResult::kInvalidValue;
  }
  std::memcpy(block->data(), buffer, kernel.block_bytes);
  return CuResult::kSuccess;
}

CuResult launch(World& w, Caller& caller, CuFunction function, const CuLaunchConfig& config,
                void** parameters, void** extra) {
  // A library's kernel runs in its stream's context, whichever is current.
  const auto found = w.kernel_handles.find(function);
  const auto stream = w.streams.find(config.stream);
  if (found != w.kernel_handles.end() && function != static_cast<const void*>(found->second) &&
      stream != w.streams.end()) {
    caller.context = stream->second->context;
  }
  Op op;
  const CuResult result = kernel_op(w, caller, function, config, parameters, extra, &op);
  return result == CuResult::kSuccess ? w.submit(caller, config.stream, std::move(op)) : result;
}

CuResult parameter(const char* name, const void* handle, bool is_kernel, std::size_t index,
                   std::size_t* offset, std::size_t* bytes) {
  return call(name, Needs::kInit, text("{}, {}", handle, index), [&](World& w, Caller&) {
    const auto found = w.kernel_handles.find(handle);
    if (found == w.kernel_handles.end() || (handle != found->second) != is_kernel) {
      return CuResult::kInvalidHandle;
    }
    const Kernel& it = *found->second;
    if (index >= it.offsets.size()) {
      return CuResult::kInvalidValue;
    }
    *offset = it.offsets[index];
    if (bytes != nullptr) {
      *bytes = it.bytes[index];
    }
    return CuResult::kSuccess;
  });
}

}  // namespace

CuResult kernel_op(World& w, const Caller& caller, CuFunction function,
                   const CuLaunchConfig& config, void** parameters, void** extra, Op* op) {
  const auto found = w.kernel_handles.find(function);
  if (found == w.kernel_handles.end()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "{}: there is no kernel {}", caller.call,
                       shown(function));
    return CuResult::kInvalidHandle;
  }
  if (config.grid_x == 0 || config.grid_y == 0 || config.grid_z == 0 || config.block_x == 0 ||
      config.block_y == 0 || config.block_z == 0) {
    return CuResult::kInvalidValue;
  }
  *op = Op{.kind = OpKind::kKernel};
  op->kernel = found->second;
  op->launch = {.parameters = nullptr,
                .parameter_bytes = 0,
                .grid = {config.grid_x, config.grid_y, config.grid_z},
                .block = {config.block_x, config.block_y, config.block_z},
                .shared_bytes = config.shared_bytes};
  return take_parameters(*op->kernel, parameters, extra, &op->parameters);
}

CuResult cuMemcpyHtoDAsync_v2(CuAddress to, const void* from, std::size_t bytes, CuStream stream) {
  return call("cuMemcpyHtoDAsync_v2", Needs::kContext,
              text("{:#x}, {}, {} B, {}", to, from, bytes, shown(stream)),
              [&](World& w, Caller& caller) {
                const auto source = reinterpret_cast<std::uint64_t>(from);
                return copy(w, caller, copy_op(OpKind::kCopyIn, to, source, bytes), stream);
              });
}

CuResult cuMemcpyDtoHAsync_v2(void* to, CuAddress from, std::size_t bytes, CuStream stream) {
  return call("cuMemcpyDtoHAsync_v2", Needs::kContext,
              text("{}, {:#x}, {} B, {}", shown(to), from, bytes, shown(stream)),
              [&](World& w, Caller& caller) {
                const auto target = reinterpret_cast<std::uint64_t>(to);
                return copy(w, caller, copy_op(OpKind::kCopyOut, target, from, bytes), stream);
              });
}

CuResult cuMemcpyDtoDAsync_v2(CuAddress to, CuAddress from, std::size_t bytes, CuStream stream) {
  return call("cuMemcpyDtoDAsync_v2", Needs::kContext,
              text("{:#x}, {:#x}, {} B, {}", to, from, bytes, shown(stream)),
              [&](World& w, Caller& caller) {
                return copy(w, caller, copy_op(OpKind::kCopyWithin, to, from, bytes), stream);
              });
}

CuResult cuMemcpyAsync(CuAddress to, CuAddress from, std::size_t bytes, CuStream stream) {
  return call("cuMemcpyAsync", Needs::kContext,
              text("{:#x}, {:#x}, {} B, {}", to, from, bytes, shown(stream)),
              [&](World& w, Caller& caller) {
                // An address without memory is taken for one of the host.
                for (const Range& range : {Range{to, bytes, true}, Range{from, bytes, false}}) {
                  const std::string problem =
                      w.memory->reserved(range.address) ? w.memory->problem(range) : std::string();
                  if (!problem.empty()) {
                    w.report.violation(FAKE_CUDA_CRASH, "cuMemcpyAsync: {}", problem);
                    return CuResult::kInvalidValue;
                  }
                }
                const bool in = w.memory->reserved(to);
                const bool out = w.memory->reserved(from);
                if (!in && !out) {
                  return CuResult::kNotSupported;  // between two places of the host
                }
                const OpKind kind = in && out ? OpKind::kCopyWithin
                                    : in      ? OpKind::kCopyIn
                                              : OpKind::kCopyOut;
                return copy(w, caller, copy_op(kind, to, from, bytes), stream);
              });
}

CuResult cuMemsetD8Async(CuAddress to, unsigned char byte, std::size_t bytes, CuStream stream) {
  return call("cuMemsetD8Async", Needs::kContext,
              text("{:#x}, {}, {} B, {}", to, byte, bytes, shown(stream)),
              [&](World& w, Caller& caller) {
                if (!w.memory->problem({to, bytes, true}).empty()) {
                  return CuResult::kInvalidValue;
                }
                if (bytes == 0) {
                  return CuResult::kSuccess;
                }
                Op op = copy_op(OpKind::kSet, to, 0, bytes);
                op.byte = byte;
                return w.submit(caller, stream, std::move(op));
              });
}

CuResult cuStreamWriteValue64_v2(CuStream stream, CuAddress address, std::uint64_t number,
                                 unsigned flags) {
  return call("cuStreamWriteValue64_v2", Needs::kContext,
              text("{}, {:#x}, {}, {}", shown(stream), address, number, flags),
              [&](World& w, Caller& caller) {
                return value(w, caller, OpKind::kWriteValue, stream, address, number, flags);
              });
}

CuResult cuStreamWaitValue64_v2(CuStream stream, CuAddress address, std::uint64_t number,
                                unsigned flags) {
  return call("cuStreamWaitValue64_v2", Needs::kContext,
              text("{}, {:#x}, {}, {}", shown(stream), address, number, flags),
              [&](World& w, Caller& caller) {
                return value(w, caller, OpKind::kWaitValue, stream, address, number, flags);
              });
}

// Of values of 64 bits; barriers are between operations, which are in order anyway.
CuResult cuStreamBatchMemOp_v2(CuStream stream, unsigned count, CuStreamOperation* operations,
                               unsigned flags) {
  return call("cuStreamBatchMemOp_v2", Needs::kContext,
              text("{}, {} operations, {}", shown(stream), count, flags),
              [&](World& w, Caller& caller) {
                const std::span all(operations, count);
                for (const CuStreamOperation& it : all) {
                  const bool has_value = it.type == CuStreamOperationType::kWaitValue64 ||
                                         it.type == CuStreamOperationType::kWriteValue64;
                  if (!has_value && it.type != CuStreamOperationType::kBarrier) {
                    return CuResult::kNotSupported;
                  }
                  if (has_value && !value_fits(w, it.address)) {
                    return CuResult::kInvalidValue;
                  }
                }
                for (const CuStreamOperation& it : all) {
                  if (it.type == CuStreamOperationType::kBarrier) {
                    continue;
                  }
                  const CuResult result =
                      value(w, caller,
                            it.type == CuStreamOperationType::kWaitValue64 ? OpKind::kWaitValue
                                                                           : OpKind::kWriteValue,
                            stream, it.address, it.value, it.flags);
                  if (result != CuResult::kSuccess) {
                    return result;
                  }
                }
                return CuResult::kSuccess;
              });
}

CuResult cuLaunchHostFunc(CuStream stream, CuHostFunction function, void* argument) {
  return call("cuLaunchHostFunc", Needs::kContext, text("{}, {}", shown(stream), argument),
              [&](World& w, Caller& caller) {
                Op op{.kind = OpKind::kHostFunction};
                op.function = function;
                op.argument = argument;
                return w.submit(caller, stream, std::move(op));
              });
}

CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CuStream stream, void** parameters, void** extra) {
  return call("cuLaunchKernel", Needs::kContext, text("{}, {}", shown(function), shown(stream)),
              [&](World& w, Caller& caller) {
                const CuLaunchConfig config{.grid_x = grid_x,
                                            .grid_y = grid_y,
                                            .grid_z = grid_z,
                                            .block_x = block_x,
                                            .block_y = block_y,
                                            .block_z = block_z,
                                            .shared_bytes = shared_bytes,
                                            .stream = stream,
                                            .attributes = nullptr,
                                            .attribute_count = 0};
                return launch(w, caller, function, config, parameters, extra);
              });
}

CuResult cuLaunchKernelEx(const CuLaunchConfig* config, CuFunction function, void** parameters,
                          void** extra) {
  return call("cuLaunchKernelEx", Needs::kContext,
              text("{}, {}", shown(function), shown(config->stream)),
              [&](World& w, Caller& caller) {
                return launch(w, caller, function, *config, parameters, extra);
              });
}

CuResult cuLaunchCooperativeKernel(CuFunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CuStream stream,
                                   void** parameters) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, parameters, nullptr);
}

// The address as nobody else would write it.
CuResult cuTensorMapEncodeTiled(CuTensorMap* map, unsigned type, unsigned rank, void* address,
                                const std::uint64_t* sizes, const std::uint64_t*,
                                const std::uint32_t*, const std::uint32_t*, unsigned, unsigned,
                                unsigned, unsigned) {
  *map = {};
  map->words[0] = type;
  map->words[1] = rank;
  map->words[2] = sizes[0];
  return cuTensorMapReplaceAddress(map, address);
}

CuResult cuTensorMapReplaceAddress(CuTensorMap* map, void* address) {
  map->words[3] = reinterpret_cast<std::uint64_t>(address) ^ kFakeTensorMapKey;
  return CuResult::kSuccess;
}

CuResult cuFuncGetParamInfo(CuFunction function, std::size_t index, std::size_t* offset,
                            std::size_t* bytes) {
  return parameter("cuFuncGetParamInfo", function, false, index, offset, bytes);
}

CuResult cuKernelGetParamInfo(CuKernel kernel, std::size_t index, std::size_t* offset,
                              std::size_t* bytes) {
  return parameter("cuKernelGetParamInfo", kernel, true, index, offset, bytes);
}

}  // namespace fake_cuda
