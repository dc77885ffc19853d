// The lower bound: while a kernel runs, idle tensors have what device memory its operands leave.
// The rest is elsewhere. What is elsewhere and used later must come in; what is elsewhere and was
// written earlier in the same iteration must have gone out. Which kernel an iteration begins with
// is anybody's choice: in the long run the worst one counts.
#include "analysis/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "analysis/memory_curve.h"
#include "analysis/sweep.h"

namespace spillway {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// Iterations may be counted from any kernel on, and what holds for an iteration that begins there
// holds in the long run: so many kernels are tried, the first one among them.
constexpr std::size_t kBeginnings = 256;

// An inactive period, and the writes that matter when an iteration is counted from some kernel on.
struct Idle {
  std::size_t after = 0;
  std::size_t until = 0;
  Bytes bytes = 0;
  std::size_t written = kNone;          // the last kernel up to `after` that writes the tensor
  std::size_t written_by_last = kNone;  // of a persistent tensor, the last one in the trace
};

std::vector<Idle> idle_times(const Trace& trace, const Vitality& vitality) {
  std::vector<std::vector<std::size_t>> writes(trace.tensors.size());
  for (std::size_t kernel = 0; kernel < trace.kernels.size(); ++kernel) {
    for (const TensorId tensor : trace.kernels[kernel].writes) {
      writes[tensor].push_back(kernel);
    }
  }
  std::vector<Idle> idle;
  idle.reserve(vitality.periods.size());
  for (const InactivePeriod& period : vitality.periods) {
    const std::vector<std::size_t>& by = writes[period.tensor];
    const auto later = std::upper_bound(by.begin(), by.end(), std::size_t{period.after});
    const Tensor& tensor = trace.tensors[period.tensor];
    idle.push_back({.after = period.after,
                    .until = period.until,
                    .bytes = tensor.bytes,
                    .written = later == by.begin() ? kNone : *std::prev(later),
                    .written_by_last = tensor.persistent && !by.empty() ? by.back() : kNone});
  }
  return idle;
}

// Kernels in the order of an iteration that begins with one of them.
class Order {
 public:
  Order(std::size_t kernels, std::size_t first) : kernels_(kernels), first_(first) {}
  [[nodiscard]] std::size_t place_of(std::size_t kernel) const {
    return kernel >= first_ ? kernel - first_ : kernel + kernels_ - first_;
  }
  [[nodiscard]] std::size_t kernel_at(std::size_t place) const {
    return place < kernels_ - first_ ? place + first_ : place + first_ - kernels_;
  }
  // Whether the tensor has been written since the iteration began when the period begins.
  [[nodiscard]] bool written_before(const Idle& idle) const {
    if (idle.after >= first_) {
      return idle.written != kNone && idle.written >= first_;
    }
    return idle.written != kNone ||
           (idle.written_by_last != kNone && idle.written_by_last >= first_);
  }

 private:
  std::size_t kernels_;
  std::size_t first_;
};

// Idle bytes at each place.
struct IdleBytes {
  std::vector<Bytes> returning;  // that are used later in the same iteration
  // That were written earlier in it, so that no copy of them from an earlier iteration is good.
  std::vector<Bytes> written;
};

IdleBytes idle_bytes(const std::vector<Idle>& idle, const Order& order, std::size_t kernels) {
  Sweep returning(kernels);
  Sweep written(kernels);
  for (const Idle& period : idle) {
    const std::size_t begin = order.place_of(period.after) + 1;
    const std::size_t end = order.place_of(period.until);
    const bool wraps = end < begin;
    returning.add(wraps ? 0 : begin, end, period.bytes);
    if (order.written_before(period)) {
      written.add(begin, wraps ? kernels : end, period.bytes);
    }
  }
  return {.returning = returning.totals(), .written = written.totals()};
}

// What idle tensors exceed the room that the operands of the kernel at each place leave of the
// device. A kernel that is larger than the device has its operands pass through, so idle tensors
// may still fill it.
std::vector<Bytes> excess_bytes(std::vector<Bytes> idle, const MemoryCurve& curve,
                                const Order& order, Bytes capacity_bytes) {
  for (std::size_t place = 0; place < idle.size(); ++place) {
    const Bytes active = curve.kernels[order.kernel_at(place)].active_bytes;
    const Bytes room = active > capacity_bytes ? capacity_bytes : capacity_bytes - active;
    idle[place] -= std::min(idle[place], room);
  }
  return idle;
}

Bytes largest(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

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

// Times of bytes on a machine, in each of the ways that they may have to take.
struct Rates {
  const Machine* machine;
  [[nodiscard]] TimeNs in_ns(Bytes bytes) const {
    return transfer_ns(bytes, machine->link.to_device_bytes_per_s);
  }
  [[nodiscard]] TimeNs out_ns(Bytes bytes) const {
    return transfer_ns(bytes, machine->link.from_device_bytes_per_s);
  }
  [[nodiscard]] Bytes beyond_host(Bytes bytes) const {
    return bytes - std::min(bytes, machine->host.capacity_bytes);
  }
  [[nodiscard]] TimeNs storage_ns(Bytes bytes) const {
    return transfer_ns(beyond_host(bytes), machine->storage.read_bytes_per_s);
  }
};

// Of an iteration that begins with a kernel: bytes that must go in after each place and out before
// it, and the time that they leave it at least.
struct Counted {
  std::vector<Bytes> in;
  std::vector<Bytes> out;
  TimeNs time_ns = 0;
};

Counted count_from(const std::vector<Idle>& idle, const Order& order, const MemoryCurve& curve,
                   const Vitality& vitality, const Rates& rates) {
  const std::size_t kernels = curve.kernels.size();
  IdleBytes bytes = idle_bytes(idle, order, kernels);
  const Bytes capacity_bytes = rates.machine->device.capacity_bytes;
  Counted counted{.in = excess_bytes(std::move(bytes.returning), curve, order, capacity_bytes),
                  .out = excess_bytes(std::move(bytes.written), curve, order, capacity_bytes),
                  .time_ns = vitality.kernel_start_ns.back()};
  TimeNs before_ns = 0;
  for (std::size_t place = 0; place < kernels; ++place) {
    // What leaves does so before the kernel starts, what returns after it has ended.
    const std::size_t kernel = order.kernel_at(place);
    const TimeNs duration_ns =
        vitality.kernel_start_ns[kernel + 1] - vitality.kernel_start_ns[kernel];
    const TimeNs after_ns = vitality.kernel_start_ns.back() - before_ns - duration_ns;
    const TimeNs first_ns = std::max(before_ns, rates.out_ns(counted.out[place]));
    const TimeNs last_ns =
        std::max({after_ns, rates.in_ns(counted.in[place]), rates.storage_ns(counted.in[place])});
    counted.time_ns = std::max(counted.time_ns, add(add(first_ns, duration_ns), last_ns));
    before_ns += duration_ns;
  }
  return counted;
}

}  // namespace

LowerBound lower_bound(const Trace& trace, const Vitality& vitality, const Machine& machine) {
  const MemoryCurve curve = memory_curve(trace, vitality);
  const std::vector<Idle> idle = idle_times(trace, vitality);
  const std::size_t kernels = trace.kernels.size();
  const Rates rates{&machine};
  const Counted told = count_from(idle, Order(kernels, 0), curve, vitality, rates);

  LowerBound bound;
  bound.compute_ns = vitality.kernel_start_ns.back();
  bound.to_device_bytes = largest(told.in);
  bound.from_device_bytes = largest(told.out);
  bound.storage_read_bytes = rates.beyond_host(bound.to_device_bytes);
  bound.link_ns =
      std::max(rates.in_ns(bound.to_device_bytes), rates.out_ns(bound.from_device_bytes));
  bound.storage_ns = rates.storage_ns(bound.to_device_bytes);
  bound.iteration_ns = told.time_ns;
  bound.lasting_ns = told.time_ns;
  const std::size_t beginnings = std::min(kernels, kBeginnings);
  for (std::size_t i = 1; i < beginnings; ++i) {
    const Order order(kernels, i * kernels / beginnings);
    bound.lasting_ns =
        std::max(bound.lasting_ns, count_from(idle, order, curve, vitality, rates).time_ns);
  }
  for (KernelIndex kernel = 0; kernel < kernels; ++kernel) {
    if (curve.kernels[kernel].active_bytes > machine.device.capacity_bytes) {
      bound.over_capacity.push_back(kernel);
    }
  }
  return bound;
}

}  // namespace spillway
