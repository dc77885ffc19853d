// Counts and sums of a trace, as text and as JSON. Layer: cli.
#include "cli/trace/trace_info.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/units.h"

namespace spillway {
namespace {

struct Group {
  std::uint64_t count = 0;
  Bytes bytes = 0;

  void add(Bytes more) {
    ++count;
    bytes += more;
  }
};

struct Totals {
  Group persistent;
  Group intermediate;
  Group scratch;
  std::uint64_t accesses = 0;
  std::uint64_t synchronizations = 0;
  TimeNs duration_ns = 0;
  KernelIndex longest = 0;
  KernelIndex largest = 0;  // the kernel whose operands need the most memory
  Bytes largest_bytes = 0;
};

// Bytes of everything that the kernel touches, each tensor once.
Bytes operand_bytes(const Trace& trace, const Kernel& kernel) {
  std::vector<TensorId> ids = kernel.reads;
  ids.insert(ids.end(), kernel.writes.begin(), kernel.writes.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Bytes bytes = 0;
  for (const TensorId id : ids) {
    bytes += trace.tensors[id].bytes;
  }
  return bytes;
}

Totals count(const Trace& trace) {
  Totals totals;
  for (const Tensor& tensor : trace.tensors) {
    Group& group = tensor.persistent ? totals.persistent
                   : tensor.scratch  ? totals.scratch
                                     : totals.intermediate;
    group.add(tensor.bytes);
  }
  for (KernelIndex k = 0; k < trace.kernels.size(); ++k) {
    const Kernel& kernel = trace.kernels[k];
    totals.accesses += kernel.reads.size() + kernel.writes.size();
    totals.synchronizations += kernel.synchronizes ? 1 : 0;
    totals.duration_ns += kernel.duration_ns;
    if (kernel.duration_ns > trace.kernels[totals.longest].duration_ns) {
      totals.longest = k;
    }
    const Bytes bytes = operand_bytes(trace, kernel);
    if (bytes > totals.largest_bytes) {
      totals.largest_bytes = bytes;
      totals.largest = k;
    }
  }
  return totals;
}

}  // namespace

std::string model_and_batch(const std::string& model, std::uint64_t batch_size) {
  const std::string name = model.empty() ? "unknown model" : model;
  return batch_size == 0 ? name : fmt::format("{}, batch size {}", name, batch_size);
}

std::string trace_info_text(const Trace& trace, std::string_view name) {
  const Totals totals = count(trace);
  const Kernel& longest = trace.kernels[totals.longest];
  std::string text = fmt::format("trace         {}\n", name);
  text +=
      fmt::format("model         {}, {} on {}\n", model_and_batch(trace.model, trace.batch_size),
                  trace.dtype.empty() ? "unknown type" : trace.dtype,
                  trace.device.empty() ? "unknown device" : trace.device);
  text += fmt::format("kernels       {}, {} with all data in device memory\n", trace.kernels.size(),
                      format_time(totals.duration_ns));
  if (totals.synchronizations > 0) {
    text +=
        fmt::format("sync points   {}; the host waits there until all kernels so far have run\n",
                    totals.synchronizations);
  }
  text += fmt::format("longest       {} (kernel {} {})\n", format_time(longest.duration_ns),
                      totals.longest, longest.name);
  text += fmt::format("largest       {} (kernel {} {}); the least device memory that can run it\n",
                      format_bytes(totals.largest_bytes), totals.largest,
                      trace.kernels[totals.largest].name);
  text += fmt::format("tensors       {}, read and written {} times\n", trace.tensors.size(),
                      totals.accesses);
  const auto line = [&text](std::string_view kind, const Group& group) {
    text += fmt::format("{:<14}{}, {}\n", kind, group.count, format_bytes(group.bytes));
  };
  line("persistent", totals.persistent);
  line("intermediate", totals.intermediate);
  line("scratch", totals.scratch);
  return text;
}

std::string trace_info_json(const Trace& trace, std::string_view name) {
  const Totals totals = count(trace);
  const auto group = [](const Group& of) {
    return nlohmann::ordered_json{{"count", of.count}, {"bytes", of.bytes}};
  };
  nlohmann::ordered_json json{
      {"trace", name},
      {"model", trace.model},
      {"batch_size", trace.batch_size},
      {"device", trace.device},
      {"dtype", trace.dtype},
      {"kernels", trace.kernels.size()},
      {"accesses", totals.accesses},
      {"ideal_s", to_seconds(totals.duration_ns)},
      {"longest_kernel", totals.longest},
      {"largest_kernel", totals.largest},
      {"largest_kernel_bytes", totals.largest_bytes},
      {"tensors", trace.tensors.size()},
      {"persistent", group(totals.persistent)},
      {"intermediate", group(totals.intermediate)},
      {"scratch", group(totals.scratch)},
  };
  if (totals.synchronizations > 0) {
    json["synchronization_points"] = totals.synchronizations;
  }
  // A file's name may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace spillway
