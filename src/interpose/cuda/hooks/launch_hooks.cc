// Kernels on their way to the device. Layer: interpose, cuda.
#include <optional>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/looks.h"
#include "interpose/cuda/operands/launch_operands.h"
#include "interpose/cuda/replay/replayable_launch.h"

namespace spillway::cuda {
namespace {

// What else is to be known of a launch.
struct HowLaunched {
  const LaunchShape* shape = nullptr;  // nullptr: it is not launched again
  bool starts_early = false;           // CudaLaunch's
};

// What the launch uses, by its parameters; its kernel and the library's call say how.
void add_operands(Operands& operands, const Session& session, const KernelLayout& kernel,
                  const AddressUse& use, LibraryCall* library, void* const* parameters,
                  void* const* extra) {
  const MatrixProduct* const product = library == nullptr ? nullptr : library->product();
  const bool begins_tensors =
      kernel.reads.has_value() || !kernel.roles.empty() || product != nullptr;
  if (recording() != nullptr ||
      (begins_tensors && session.platform->recompute().stores_launches())) {
    operands.by_tensor();
  }
  operands.by_living_tensor(begins_tensors);
  add_parameters(operands, kernel, use, parameters, extra);
  operands.add_what_is_everywhere();
  if (product != nullptr) {
    operands.only_read([&](const CudaOperand& it) { return only_reads(*product, it); });
  }
}

// Puts the launch on its stream by `call`, and lets the platform store it if it can be repeated:
// that needs its shape (not nullptr), and a kernel whose result and reads are known.
template <typename Call>
CuResult issue_storable(const Session& session, CudaLaunch what, const ProgramLaunch& as_made,
                        const LaunchShape* shape, LibraryCall* library, const Call& call) {
  std::optional<Keeping> keeping;
  if (shape != nullptr && recording() == nullptr &&
      session.platform->recompute().stores_launches()) {
    keeping = may_keep(session, as_made);
  }
  const auto keep = [&] { return keep_launch(session, *keeping, *shape, as_made); };
  if (library != nullptr) {
    what.completes = library->kept();
  }
  if (keeping) {
    what.makes = keeping->makes.address;
    what.keep = std::cref(keep);
    if (library != nullptr) {
      library->keeps(what.makes);
    }
  }
  return issue_tracked(session, std::move(what), [&](std::uint64_t launch) {
    const CuResult result = call();
    if (keeping && result == CuResult::kSuccess && !put_behind(*keeping, as_made.stream)) {
      session.platform->launches().not_kept(launch);
    }
    return result;
  });
}

template <typename Call>
CuResult launch(CuFunction function, CuStream stream, void* const* parameters, void* const* extra,
                const HowLaunched& again, const Call& call) {
  LibraryCall* const library = LibraryCall::current();
  const bool first_in_library = library != nullptr && library->launched() == 0;
  if (library != nullptr) {
    library->launches();
  }
  ProgramCall here(CallKind::kLaunch);
  const Session* const session = here.seen_by();
  if (session == nullptr || captured(stream)) {
    return here.driver(call);
  }
  const KernelLayout& kernel = kernel_layout(function);
  // cuBLAS's own, and those of products that say what they use.
  const AddressUse use =
      library == nullptr ? kernel.addresses : AddressUse{.stores = false, .reaches = false};
  if (!exposes(use)) {
    if (const Bypassed bypassed(*session, stream); bypassed) {
      return here.driver(call);
    }
  }
  const auto add = [&](Operands& all) {
    add_operands(all, *session, kernel, use, library, parameters, extra);
  };
  std::optional<Operands> found;
  found.emplace(*session);
  add(*found);
  // What is found may lead to more.
  while (use.reaches && may_look(*session) &&
         look_at(*session, stream, found->hash(kernel.hash), found->all())) {
    found.emplace(*session);
    found->is_of_same_launch();
    add(*found);
  }
  const Operands& operands = *found;
  if (operands.empty() && !(use.reaches && session->platform->launches().has_exposed())) {
    return here.driver(call);
  }
  const CudaLaunch what{.stream = stream,
                        .hash = operands.hash(kernel.hash),
                        .kind = kernel.hash.first,
                        .name = kernel.name,
                        .operands = operands.all(),
                        .needs_mapping = false,
                        .sparse = kernel.sparse,
                        .exposes = exposes(use),
                        .reaches = use.reaches,
                        .starts_early = again.starts_early};
  const ProgramLaunch as_made{.stream = stream,
                              .kernel = kernel,
                              .parameters = parameters,
                              .block = parameter_block(extra),
                              .operands = what.operands,
                              .library = first_in_library ? library : nullptr};
  const CuResult result = issue_storable(*session, what, as_made, again.shape, library,
                                         [&] { return here.driver(call); });
  if (what.exposes) {
    note_given(*session, stream, kernel.hash.first, what.hash, what.operands);
  }
  return result;
}

// Calls from before kernels had parameter lists: what they use is said by other calls.
template <typename Call>
CuResult old_launch(const char* name, const Call& call) {
  const ProgramCall here(CallKind::kLaunch);
  if (here.seen_by() == nullptr) {
    return call();
  }
  static std::atomic<bool> told{false};
  return refuse(told, name, "use cuLaunchKernel");
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using spillway::cuda::CuFunction;
using spillway::cuda::CuLaunchConfig;
using spillway::cuda::CuResult;
using spillway::cuda::CuStream;

// One and its twin: `per_thread` tells which.
#define SPILLWAY_LAUNCH(symbol, per_thread)                                                    \
  CuResult symbol(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                  CuStream stream, void** parameters, void** extra) {                          \
    const cuda::LaunchShape shape{function, grid_x,  grid_y,  grid_z,                          \
                                  block_x,  block_y, block_z, shared_bytes};                   \
    const auto call = [&] {                                                                    \
      return cuda::real().symbol(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,  \
                                 shared_bytes, stream, parameters, extra);                     \
    };                                                                                         \
    return cuda::launch(function, cuda::meant(stream, per_thread), parameters, extra,          \
                        {.shape = &shape}, call);                                              \
  }
#define SPILLWAY_LAUNCH_EX(symbol, per_thread)                                                     \
  CuResult symbol(const CuLaunchConfig* config, CuFunction function, void** parameters,            \
                  void** extra) {                                                                  \
    const CuStream stream = config != nullptr ? config->stream : nullptr;                          \
    const std::optional<cuda::LaunchShape> shape =                                                 \
        config != nullptr ? cuda::shape_of(*config, function) : std::nullopt;                      \
    return cuda::launch(function, cuda::meant(stream, per_thread), parameters, extra,              \
                        {.shape = shape ? &*shape : nullptr,                                       \
                         .starts_early = config != nullptr && cuda::starts_early(*config)},        \
                        [&] { return cuda::real().symbol(config, function, parameters, extra); }); \
  }
#define SPILLWAY_LAUNCH_COOPERATIVE(symbol, per_thread)                                           \
  CuResult symbol(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,         \
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,    \
                  CuStream stream, void** parameters) {                                           \
    return cuda::launch(function, cuda::meant(stream, per_thread), parameters, nullptr, {}, [&] { \
      return cuda::real().symbol(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,     \
                                 shared_bytes, stream, parameters);                               \
    });                                                                                           \
  }

extern "C" {

SPILLWAY_LAUNCH(cuLaunchKernel, false)
SPILLWAY_LAUNCH(cuLaunchKernel_ptsz, true)
SPILLWAY_LAUNCH_EX(cuLaunchKernelEx, false)
SPILLWAY_LAUNCH_EX(cuLaunchKernelEx_ptsz, true)
SPILLWAY_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, false)
SPILLWAY_LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

CuResult cuLaunch(CuFunction function) {
  return cuda::old_launch("cuLaunch", [&] { return cuda::real().cuLaunch(function); });
}
CuResult cuLaunchGrid(CuFunction function, int width, int height) {
  return cuda::old_launch("cuLaunchGrid",
                          [&] { return cuda::real().cuLaunchGrid(function, width, height); });
}
CuResult cuLaunchGridAsync(CuFunction function, int width, int height, CuStream stream) {
  return cuda::old_launch("cuLaunchGridAsync", [&] {
    return cuda::real().cuLaunchGridAsync(function, width, height, stream);
  });
}
CuResult cuLaunchCooperativeKernelMultiDevice(void* launches, unsigned devices, unsigned flags) {
  return cuda::old_launch("cuLaunchCooperativeKernelMultiDevice", [&] {
    return cuda::real().cuLaunchCooperativeKernelMultiDevice(launches, devices, flags);
  });
}

}  // extern "C"
