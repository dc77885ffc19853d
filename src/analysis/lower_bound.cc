// The lower bound: while a kernel runs, idle tensors have what device memory its operands leave.
// The rest is elsewhere. What is elsewhere and used later must come in; what is elsewhere and was
// written earlier in the same iteration must have gone out.
#include "analysis/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "analysis/memory_curve.h"
#include "analysis/sweep.h"

namespace spillway {
namespace {

// The first kernel that writes each tensor; `none` where no kernel does.
std::vector<std::size_t> first_writes(const Trace& trace, std::size_t none) {
  std::vector<std::size_t> first(trace.tensors.size(), none);
  for (std::size_t kernel = 0; kernel < trace.kernels.size(); ++kernel) {
    for (const TensorId tensor : trace.kernels[kernel].writes) {
      first[tensor] = std::min(first[tensor], kernel);
    }
  }
  return first;
}

// Idle bytes during each kernel that are used later in the same iteration.
std::vector<Bytes> returning_bytes(const Trace& trace, const Vitality& vitality) {
  Sweep idle(trace.kernels.size());
  for (const InactivePeriod& period : vitality.periods) {
    const std::size_t begin = period.wraps ? 0 : std::size_t{period.after} + 1;
    idle.add(begin, period.until, trace.tensors[period.tensor].bytes);
  }
  return idle.totals();
}

// Idle bytes during each kernel that were written earlier in the same iteration, so that no copy of
// them from an earlier iteration is good.
std::vector<Bytes> written_bytes(const Trace& trace, const Vitality& vitality) {
  const std::size_t kernels = trace.kernels.size();
  const std::vector<std::size_t> written = first_writes(trace, kernels);
  Sweep idle(kernels);
  for (const InactivePeriod& period : vitality.periods) {
    if (written[period.tensor] <= period.after) {
      idle.add(std::size_t{period.after} + 1, period.wraps ? kernels : period.until,
               trace.tensors[period.tensor].bytes);
    }
  }
  return idle.totals();
}

// What idle tensors exceed the room that each kernel's operands leave of the device. A kernel that
// is larger than the device has its operands pass through, so idle tensors may still fill it.
std::vector<Bytes> excess_bytes(std::vector<Bytes> idle, const MemoryCurve& curve,
                                Bytes capacity_bytes) {
  for (std::size_t kernel = 0; kernel < idle.size(); ++kernel) {
    const Bytes active = curve.kernels[kernel].active_bytes;
    const Bytes room = active > capacity_bytes ? capacity_bytes : capacity_bytes - active;
    idle[kernel] -= std::min(idle[kernel], room);
  }
  return idle;
}

Bytes largest(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

constexpr TimeNs kForever = std::numeric_limits<TimeNs>::max();

TimeNs add(TimeNs a_ns, TimeNs b_ns) { return a_ns > kForever - b_ns ? kForever : a_ns + b_ns; }

TimeNs transfer_ns(Bytes bytes, double bytes_per_s) {
  if (bytes == 0) {
    return 0;
  }
  const double time_ns =
      std::floor(static_cast<double>(bytes) / bytes_per_s * static_cast<double>(kNsPerS));
  return bytes_per_s > 0 && time_ns < static_cast<double>(kForever) ? static_cast<TimeNs>(time_ns)
                                                                    : kForever;
}

}  // namespace

LowerBound lower_bound(const Trace& trace, const Vitality& vitality, const Machine& machine) {
  const Bytes capacity_bytes = machine.device.capacity_bytes;
  const MemoryCurve curve = memory_curve(trace, vitality);

  const std::vector<Bytes> in =
      excess_bytes(returning_bytes(trace, vitality), curve, capacity_bytes);
  const std::vector<Bytes> out =
      excess_bytes(written_bytes(trace, vitality), curve, capacity_bytes);
  const auto beyond_host = [&](Bytes bytes) {
    return bytes - std::min(bytes, machine.host.capacity_bytes);
  };
  const auto in_ns = [&](Bytes bytes) {
    return transfer_ns(bytes, machine.link.to_device_bytes_per_s);
  };
  const auto out_ns = [&](Bytes bytes) {
    return transfer_ns(bytes, machine.link.from_device_bytes_per_s);
  };
  const auto storage_ns = [&](Bytes bytes) {
    return transfer_ns(beyond_host(bytes), machine.storage.read_bytes_per_s);
  };

  LowerBound bound;
  bound.compute_ns = vitality.kernel_start_ns.back();
  bound.to_device_bytes = largest(in);
  bound.from_device_bytes = largest(out);
  bound.storage_read_bytes = beyond_host(bound.to_device_bytes);
  bound.link_ns = std::max(in_ns(bound.to_device_bytes), out_ns(bound.from_device_bytes));
  bound.storage_ns = storage_ns(bound.to_device_bytes);
  bound.iteration_ns = bound.compute_ns;
  for (KernelIndex kernel = 0; kernel < trace.kernels.size(); ++kernel) {
    // What leaves does so before the kernel starts, what returns after it has ended.
    const TimeNs compute_after_ns = bound.compute_ns - vitality.kernel_start_ns[kernel + 1];
    const TimeNs before_ns = std::max(vitality.kernel_start_ns[kernel], out_ns(out[kernel]));
    const TimeNs after_ns = std::max({compute_after_ns, in_ns(in[kernel]), storage_ns(in[kernel])});
    bound.iteration_ns = std::max(bound.iteration_ns,
                                  add(add(before_ns, trace.kernels[kernel].duration_ns), after_ns));
    if (curve.kernels[kernel].active_bytes > capacity_bytes) {
      bound.over_capacity.push_back(kernel);
    }
  }
  return bound;
}

}  // namespace spillway
