// Looks at device memory into which a kernel may have put addresses, before another that may follow
// them is launched: the bytes are copied to the host behind what is on the stream, and the
// program's thread waits for them. Layer: interpose, cuda. Thread-safe. docs/interposer.md,
// "What a call uses".
#pragma once

#include <cstdint>
#include <span>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/operands/operands.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/operands/unlooked_memory.h"

namespace spillway::cuda {

// Whether to look now. Not while everything fits, because nothing leaves; not during a capture,
// when the driver refuses such calls; not once streams wait for values, because what we wait for
// may wait for this thread.
[[nodiscard]] inline bool may_look(const Session& session) {
  return UnlookedMemory::of_program().any() && !session.platform->bypass().calls_are_open() &&
         !captures_under_way() && order_is_known();
}
// Looks at what of these operands of a launch on this stream is to be looked at. True if that has
// found new addresses, so that the launch may use more than before. `launch` is the hash of kernel
// and operands: costs next to nothing where nothing was to be looked at for the same, and nothing
// noted since.
bool look_at(const Session& session, CuStream stream, const LaunchHash& launch,
             std::span<const CudaOperand> operands);
// The context has ended, and what of ours was in it for that.
void forget_looks_of(CuContext context);

// A kernel that may store addresses, or a graph with some, was launched on this stream with these
// operands.
// `launch` is the hash of both. Costs next to nothing where that was noted before.
void note_given(const Session& session, CuStream stream, std::uint64_t kernel,
                const LaunchHash& launch, std::span<const CudaOperand> operands);
// The host has copied that there, and it was too much to be scanned.
void note_unscanned(const Session& session, const AddressRange& bytes);

}  // namespace spillway::cuda
