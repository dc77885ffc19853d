// What no policy can beat: a lower bound on the time of an iteration on a machine.
// Layer: analysis.
//
// Why it holds. Take a kernel k whose operands leave `room` bytes of device memory (all of it, if
// they exceed the device: then k runs only with paging).
// 1. In: of the idle tensors that the iteration still uses after k, at most `room` bytes are on the
//    device during k. The rest crosses the link after k.
// 2. Out: of the idle tensors that the iteration has written before k, what is not on the device
//    has crossed the link before k started. What it did not write is not counted: a valid copy may
//    lie elsewhere.
// 3. Storage: of the bytes of (1) host memory holds its capacity at most; the rest is read from
//    storage after k.
// 4. So an iteration takes at least max(kernels before k, out) + k + max(kernels after k, in,
//    storage reads), for every k.
// 5. In the long run an iteration may be counted from any kernel on: what the optimizer writes must
//    be out before the next peak. The mean of many iterations is at least the largest of the bounds
//    (4) over 256 beginnings.
#pragma once

#include <vector>

#include "analysis/vitality.h"
#include "machine/machine.h"
#include "trace/trace.h"

namespace spillway {

// Bytes are of one iteration, any iteration. They hold for every policy that has a kernel's
// operands in device memory while it runs, that obtains contents by copying (never by recomputing),
// and that keeps no copy smaller than the contents.
struct LowerBound {
  TimeNs compute_ns = 0;         // the kernels, with every operand in device memory
  Bytes to_device_bytes = 0;     // at least so many cross the link to the device
  Bytes from_device_bytes = 0;   // and back
  Bytes storage_read_bytes = 0;  // and of the former, at least so many come from storage
  TimeNs link_ns = 0;            // of those bytes alone, in the slower direction
  TimeNs storage_ns = 0;         // of those bytes alone
  // At least each of the times above, and more where what must move before a kernel, or after it,
  // takes longer than the kernels there; INT64_MAX where bytes must move at no speed.
  TimeNs iteration_ns = 0;
  // What iterations take at least in the long run, each followed by another: no less than
  // iteration_ns. What an iteration writes after the kernel that leaves the least room need not go
  // out in it, but must before that kernel comes again.
  TimeNs lasting_ns = 0;
  // Kernels whose operands exceed device memory: they run only where a kernel can start with a part
  // of its operands (paging), and not at all under a policy without it.
  std::vector<KernelIndex> over_capacity;
  [[nodiscard]] bool runs_without_paging() const { return over_capacity.empty(); }
};

// Linear in accesses, and in periods times 256. The trace must be valid, the vitality that trace's
// own.
[[nodiscard]] LowerBound lower_bound(const Trace& trace, const Vitality& vitality,
                                     const Machine& machine);

}  // namespace spillway
