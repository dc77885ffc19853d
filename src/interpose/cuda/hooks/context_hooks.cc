// Contexts that end: what is ours in them ends as well. Layer: interpose, cuda.
#include <algorithm>
#include <vector>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/graphs/graph_steps.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/kernels/own_kernels.h"
#include "interpose/cuda/looks.h"
#include "interpose/cuda/memory/context_memory.h"
#include "interpose/cuda/memory/driver_memory.h"
#include "interpose/cuda/memory/memory_pools.h"
#include "interpose/cuda/operands/host_lists.h"
#include "interpose/cuda/operands/kernel_layouts.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/operands/registered_kernels.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {
namespace {

void give_back(const Session& here, const std::vector<std::uint64_t>& addresses) {
  for (const std::uint64_t address : addresses) {
    forget_carried(address);
    if (Recording* const recorded = recording()) {
      recorded->freed(address);
    }
    (void)here.heap->free(address, std::nullopt);
  }
  here.heap->trim_to(0);
}

// What pools gave is no context's, but goes with the device's state.
void give_back_pools(const Session& here) {
  forget_captured_memory();
  std::vector<std::uint64_t> addresses;
  here.heap->for_each([&](std::uint64_t start, Bytes /*bytes*/) { addresses.push_back(start); });
  std::erase_if(addresses, [](std::uint64_t it) { return owner_of_memory(it).has_value(); });
  give_back(here, addresses);
  pools_begin_anew(here);
  forget_carried_everywhere(here);
}

// What it waits for stands behind stream waits, whose completion markers have to be there.
template <typename Call>
CuResult wait_in_driver(const Call& call) {
  ProgramCall here(CallKind::kSynchronize);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  session->platform->streams().before_wait(std::nullopt);
  const CuResult result = here.driver(call);
  session->platform->streams().after_wait(std::nullopt);
  return result;
}

// Handles of its kernels and streams may be given to others.
void ended(CuContext context) {
  forget_registered_kernels();
  forget_kernel_layouts();
  driver_has_back_all_of(context);
  forget_pinned_of(context);
  forget_looks_of(context);
  forget_call_stream(context);
  forget_graph_handles();
  const Session* const here = session();
  if (here != nullptr) {
    here->platform->streams().context_ended(context);
  }
  end_captures_of(context);
  if (here != nullptr) {
    give_back(*here, take_memory_of(context));
  }
}

template <typename Call>
CuResult end_context(CuContext context, const Call& call) {
  tell_that_code_ends();
  forget_own_kernels(context);
  const CuResult result = wait_in_driver(call);
  if (result == CuResult::kSuccess) {
    ended(context);
  }
  return result;
}

// The primary context of a device, which nobody names; nullptr if there is none at the moment.
CuContext primary_context(CuDevice device) {
  unsigned flags = 0;
  int active = 0;
  CuContext context = nullptr;
  if (real().cuDevicePrimaryCtxGetState(device, &flags, &active) == CuResult::kSuccess &&
      active != 0 && real().cuDevicePrimaryCtxRetain(&context, device) == CuResult::kSuccess) {
    (void)real().cuDevicePrimaryCtxRelease_v2(device);
  }
  return context;
}

template <typename Call>
CuResult reset_primary(CuDevice device, const Call& call) {
  const CuResult result = end_context(primary_context(device), call);
  const Session* const here = session();
  if (result == CuResult::kSuccess && here != nullptr && here->device == device) {
    give_back_pools(*here);
  }
  return result;
}

// It goes with the last that has retained it.
template <typename Call>
CuResult release_primary(CuDevice device, const Call& call) {
  const CuContext primary = primary_context(device);
  const CuResult result = wait_in_driver(call);
  unsigned flags = 0;
  int active = 1;
  if (primary != nullptr &&
      real().cuDevicePrimaryCtxGetState(device, &flags, &active) == CuResult::kSuccess &&
      active == 0) {
    forget_own_kernels(primary);
    ended(primary);
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuCtxDestroy(CuContext context) {
  return end_context(context, [&] { return cuda::real().cuCtxDestroy(context); });
}
CuResult cuCtxDestroy_v2(CuContext context) {
  return end_context(context, [&] { return cuda::real().cuCtxDestroy_v2(context); });
}
CuResult cuDevicePrimaryCtxReset(CuDevice device) {
  return reset_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxReset(device); });
}
CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  return reset_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxReset_v2(device); });
}
CuResult cuDevicePrimaryCtxRelease(CuDevice device) {
  return release_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxRelease(device); });
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return release_primary(device, [&] { return cuda::real().cuDevicePrimaryCtxRelease_v2(device); });
}

}  // extern "C"
