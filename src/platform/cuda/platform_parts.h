// The parts of the CUDA platform, through which one calls another. Layer: platform, cuda.
#pragma once

#include "platform/cuda/cuda_mechanism.h"
#include "platform/cuda/memory/host_memory_use.h"
#include "platform/cuda/platform_state.h"
#include "platform/cuda/program/call_bypass.h"
#include "platform/cuda/program/exported_memory.h"
#include "platform/cuda/program/host_updates.h"
#include "platform/cuda/program/launch_issue.h"
#include "platform/cuda/program/placed_memory.h"
#include "platform/cuda/program/program_allocations.h"
#include "platform/cuda/program/program_hints.h"
#include "platform/cuda/program/program_streams.h"
#include "platform/cuda/recompute/recompute_steps.h"
#include "platform/cuda/stream/admission_waits.h"
#include "platform/cuda/stream/completion_markers.h"

namespace spillway::cuda {

struct PlatformParts {
  PlatformParts(PlatformState& state, CudaMechanism& the_mechanism)
      : allocations(state, *this),
        placed(state, *this),
        exports(state, *this),
        issue(state, *this),
        streams(state, *this),
        bypass(state, *this),
        updates(state, *this),
        hints(state, *this),
        waits(state, *this),
        markers(state, *this),
        recompute(state, *this),
        host(state, *this),
        mechanism(the_mechanism) {}

  // What the program calls.
  ProgramAllocations allocations;
  PlacedMemory placed;
  ExportedMemory exports;
  LaunchIssue issue;
  ProgramStreams streams;
  CallBypass bypass;
  HostUpdates updates;
  ProgramHints hints;
  // What these, the engine and the driver thread call.
  AdmissionWaits waits;
  CompletionMarkers markers;
  RecomputeSteps recompute;
  HostMemoryUse host;
  CudaMechanism& mechanism;
};

}  // namespace spillway::cuda
