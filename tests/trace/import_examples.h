// Small files as PyTorch's profilers write them, put together by hand.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace spillway::test {

// A tensor of floats in a Chakra execution trace, contiguous unless it has strides.
struct ChakraTensor {
  std::uint64_t storage;
  std::vector<std::uint64_t> shape;
  std::string device = "cpu";
  std::vector<std::uint64_t> strides = {};
};

inline std::string chakra_lists(const std::vector<ChakraTensor>& tensors) {
  std::vector<std::string> values;
  std::vector<std::string> shapes;
  std::vector<std::string> types;
  std::vector<std::string> strides;
  for (const ChakraTensor& tensor : tensors) {
    std::uint64_t elements = 1;
    std::vector<std::uint64_t> steps(tensor.shape.size());
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      steps[i] = elements;
      elements *= tensor.shape[i];
    }
    steps = tensor.strides.empty() ? steps : tensor.strides;
    values.push_back(
        fmt::format(R"([900, {}, 0, {}, 4, "{}"])", tensor.storage, elements, tensor.device));
    shapes.push_back(fmt::format("[{}]", fmt::join(tensor.shape, ",")));
    types.emplace_back(R"x("Tensor(float)")x");
    strides.push_back(fmt::format("[{}]", fmt::join(steps, ",")));
  }
  return fmt::format(R"({{"values": [{}], "shapes": [{}], "types": [{}], "strides": [{}]}})",
                     fmt::join(values, ","), fmt::join(shapes, ","), fmt::join(types, ","),
                     fmt::join(strides, ","));
}

// `rf_id` is the id.
inline std::string chakra_node(std::uint64_t id, std::uint64_t parent, const std::string& name,
                               const std::string& schema = "",
                               const std::vector<ChakraTensor>& inputs = {},
                               const std::vector<ChakraTensor>& outputs = {}) {
  return fmt::format(
      R"({{"id": {}, "name": "{}", "ctrl_deps": {}, "inputs": {}, "outputs": {}, "attrs": [)"
      R"({{"name": "rf_id", "type": "uint64", "value": {}}},)"
      R"({{"name": "op_schema", "type": "string", "value": "{}"}},)"
      R"({{"name": "kernel_backend", "type": "string", "value": ""}}]}})",
      id, name, parent, chakra_lists(inputs), chakra_lists(outputs), id, schema);
}

inline std::string chakra_file(const std::vector<std::string>& nodes) {
  return fmt::format(
      R"({{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "now", "start_ts": 1, "nodes": [{}],)"
      R"( "finish_ts": 2}})",
      fmt::join(nodes, ",\n"));
}

// y = relu(x w^T), a fill, a sum that gets the storage of relu's input, an update of w. Children
// come before their parents, as the observer writes them.
inline std::string chakra_example() {
  return chakra_file(
      {chakra_node(2, 1, "[pytorch|profiler|execution_trace|thread]"),
       chakra_node(11, 10, "aten::t", "aten::t(Tensor(a) self) -> Tensor(a)", {{12, {3, 4}}},
                   {{12, {4, 3}, "cpu", {1, 4}}}),
       chakra_node(12, 10, "aten::mm", "aten::mm(Tensor self, Tensor mat2) -> Tensor",
                   {{11, {2, 4}}, {12, {4, 3}, "cpu", {1, 4}}}, {{13, {2, 3}}}),
       chakra_node(10, 2, "aten::linear",
                   "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
                   {{11, {2, 4}}, {12, {3, 4}}}, {{13, {2, 3}}}),
       chakra_node(20, 2, "aten::relu", "aten::relu(Tensor self) -> Tensor", {{13, {2, 3}}},
                   {{14, {2, 3}}}),
       chakra_node(30, 2, "aten::empty", "aten::empty(SymInt[] size) -> Tensor", {}, {{15, {10}}}),
       chakra_node(31, 2, "aten::fill_",
                   "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", {{15, {10}}},
                   {{15, {10}}}),
       chakra_node(40, 2, "aten::sum", "aten::sum(Tensor self) -> Tensor", {{14, {2, 3}}},
                   {{13, {}}}),
       chakra_node(50, 2, "aten::sub_",
                   "aten::sub_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
                   {{12, {3, 4}}, {13, {}}}, {{12, {3, 4}}}),
       chakra_node(1, 1, "[pytorch|profiler|execution_trace|process]")});
}

inline std::string kineto_file(const std::vector<std::string>& events,
                               const std::string& fields = "") {
  return fmt::format(R"({{"schemaVersion": 1, {} "traceEvents": [{}], "traceName": "t"}})", fields,
                     fmt::join(events, ",\n"));
}

// From `us` for `dur_us`; `args` are fields, with a comma behind each.
inline std::string kineto_event(const std::string& category, const std::string& name, double us,
                                double dur_us, const std::string& args = "") {
  return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 7, "tid": 7, "ts": {:.3f},)"
                     R"( "dur": {:.3f}, "args": {{{}"Ev Idx": 0}}}})",
                     category, name, us, dur_us, args);
}

inline std::string kineto_op(const std::string& name, double us, double dur_us, std::uint64_t id,
                             const std::string& shapes = "", std::int64_t sequence = -1) {
  std::string args = fmt::format(R"("External id": {}, "Record function id": {},)", id + 500, id);
  if (!shapes.empty()) {
    std::string types;
    std::size_t depth = 0;
    for (const char c : shapes) {
      depth += c == '[' ? 1U : 0U;
      types += c == '[' && depth == 2 ? (types.empty() ? R"("float")" : R"(, "float")") : "";
      depth -= c == ']' ? 1U : 0U;
    }
    args += fmt::format(R"("Input type": [{}], "Input Dims": {},)", types, shapes);
  }
  if (sequence >= 0) {
    args += fmt::format(R"("Sequence number": {},)", sequence);
  }
  return kineto_event("cpu_op", name, us, dur_us, args);
}

inline std::string kineto_memory(double us, std::uint64_t address, std::int64_t bytes,
                                 std::uint64_t total = 0, bool on_device = false) {
  return fmt::format(
      R"({{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 7,)"
      R"( "ts": {:.3f}, "args": {{"Total Reserved": 0, "Total Allocated": {}, "Bytes": {},)"
      R"( "Device Id": {}, "Device Type": {}, "Addr": {}, "Ev Idx": 0}}}})",
      us, total, bytes, on_device ? 0 : -1, on_device ? 1 : 0, address);
}

// Forward and backward pass of y = w x on the host. The block at 100 is y, that at 200 a gradient
// that stays, that at 300 is used inside of one operator, that at 400 was there before.
inline std::string kineto_host_example() {
  return kineto_file(
      {kineto_op("aten::mv", 10, 5, 1, "[[8, 4], [4]]", 3), kineto_memory(11, 100, 32),
       kineto_op("aten::relu_", 20, 2, 2, "[[8]]"), kineto_memory(25, 400, -64),
       kineto_event("cpu_op", "autograd::engine::evaluate_function: MvBackward0", 30, 20,
                    R"("Sequence number": 3,)"),
       kineto_op("MvBackward0", 31, 18, 4), kineto_op("aten::ger", 32, 8, 5, "[[8], [4]]"),
       kineto_op("aten::mul", 33, 6, 6, "[[8], [4]]"), kineto_memory(34, 300, 16),
       kineto_memory(35, 200, 128), kineto_memory(36, 300, -16), kineto_memory(45, 100, -32),
       kineto_event("user_annotation", "Optimizer.step#SGD.step", 60, 10),
       kineto_op("aten::add_", 61, 4, 7, "[[8, 4], [8, 4]]")});
}

// One operator with two kernels on a device, and a copy. The allocator has 4096 bytes before.
inline std::string kineto_device_example() {
  const auto kernel = [](const std::string& category, const std::string& name, double us,
                         double dur_us, std::uint64_t op, std::uint64_t correlation) {
    return kineto_event(category, name, us, dur_us,
                        fmt::format(R"("External id": {}, "device": 0, "stream": 7,)"
                                    R"( "correlation": {},)",
                                    op, correlation));
  };
  const auto call = [](double us, std::uint64_t correlation) {
    return kineto_event("cuda_runtime", "cudaLaunchKernel", us, 1,
                        fmt::format(R"("correlation": {},)", correlation));
  };
  return kineto_file(
      {kineto_op("aten::mm", 10, 20, 1, "[[16, 16], [16, 16]]", 3),
       kineto_memory(11, 1000, 1024, 5120, true), call(12, 91),
       kineto_memory(14, 2000, 512, 5632, true), call(15, 92),
       kineto_memory(16, 2000, -512, 5120, true), kineto_op("aten::copy_", 40, 10, 2, "[[16, 16]]"),
       call(41, 93), kineto_memory(55, 1000, -1024, 4096, true),
       kernel("kernel", "prepare", 100, 2, 501, 91), kernel("kernel", "gemm", 103, 7.5, 501, 92),
       kernel("gpu_memcpy", "Memcpy DtoH", 120, 1, 502, 93)},
      R"("deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 1}],)");
}

// Instructions of a pickle.
inline std::string pickled(std::uint64_t number) {
  if (number < 256) {
    return std::string("K") + static_cast<char>(number);
  }
  std::string digits;
  for (; number > 0; number >>= 8U) {
    digits += static_cast<char>(number & 0xFFU);
  }
  digits += '\0';
  return std::string("\x8a") + static_cast<char>(digits.size()) + digits;
}

inline std::string pickled(const std::string& text) {
  return std::string("X") + static_cast<char>(text.size()) + std::string(3, '\0') + text;
}
inline std::string pickled(int number) { return pickled(static_cast<std::uint64_t>(number)); }
inline std::string pickled(const char* text) { return pickled(std::string(text)); }

inline std::string pickled_list(const std::vector<std::string>& elements) {
  std::string all = "](";
  for (const std::string& element : elements) {
    all += element;
  }
  return all + "e";
}

// Keys and values in turn.
inline std::string pickled_dict(const std::vector<std::string>& members) {
  std::string all = "}(";
  for (const std::string& member : members) {
    all += member;
  }
  return all + "u";
}

inline std::string allocator_event(const std::string& action, std::uint64_t address,
                                   std::uint64_t bytes, std::uint64_t time_us,
                                   const std::string& frames = "]") {
  return pickled_dict({pickled("action"), pickled(action), pickled("addr"), pickled(address),
                       pickled("size"), pickled(bytes), pickled("stream"), pickled(0),
                       pickled("time_us"), pickled(time_us), pickled("frames"), frames});
}

// 1000 is freed and was there before, 2000 lives inside, 3000 stays; 4000 was there all the time.
inline std::string snapshot_example() {
  const std::string frame =
      pickled_dict({pickled("filename"), pickled("/home/me/train.py"), pickled("line"), pickled(12),
                    pickled("name"), pickled("step")});
  const std::string history =
      pickled_list({allocator_event("segment_alloc", 2000, 2097152, 1000000),
                    allocator_event("alloc", 2000, 512, 1000010, pickled_list({frame})),
                    allocator_event("free_requested", 1000, 256, 1000015),
                    allocator_event("free_completed", 1000, 256, 1000015),
                    allocator_event("alloc", 3000, 1024, 1000030),
                    allocator_event("free_requested", 2000, 512, 1000031),
                    allocator_event("free_completed", 2000, 512, 1000032)});
  const auto block = [](std::uint64_t address, std::uint64_t bytes, const std::string& state) {
    return pickled_dict({pickled("address"), pickled(address), pickled("size"), pickled(bytes),
                         pickled("requested_size"), pickled(bytes - 12), pickled("state"),
                         pickled(state)});
  };
  const std::string segment = pickled_dict(
      {pickled("address"), pickled(1000), pickled("device"), pickled(0), pickled("blocks"),
       pickled_list({block(1000, 512, "inactive"), block(3000, 1536, "active_allocated"),
                     block(4000, 4096, "active_allocated")})});
  return "\x80\x02" +
         pickled_dict({pickled("segments"), pickled_list({segment}), pickled("device_traces"),
                       pickled_list({history, "]"})}) +
         ".";
}

inline Kernel kernel(const std::string& name, TimeNs ns, std::vector<TensorId> reads,
                     std::vector<TensorId> writes) {
  return {.name = name, .duration_ns = ns, .reads = std::move(reads), .writes = std::move(writes)};
}

}  // namespace spillway::test
