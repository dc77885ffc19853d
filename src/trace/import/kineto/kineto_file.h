// A Chrome trace as PyTorch's profiler (Kineto) writes it. Layer: trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "trace/format/byte_source.h"
#include "trace/import/names.h"

namespace spillway {

// One tensor among an operator's inputs. Kineto knows its shape and type, not which one it is.
struct KinetoInput {
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 0;  // 0 in a list of tensors, whose type is not in the file
};

struct KinetoOperator {
  std::uint32_t name = 0;
  std::uint64_t thread = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t external_id = 0;  // by which kernels name it
  std::uint64_t rf_id = 0;        // "Record function id": 0 without an ExecutionTraceObserver
  std::int64_t sequence = -1;     // pairs operators of the forward and the backward pass
  std::uint64_t first_input = 0;  // in KinetoFile::inputs
  std::uint32_t inputs = 0;
  bool annotation = false;  // of the program: ProfilerStep#3
};

// A kernel, a copy or a memset of a device.
struct KinetoWork {
  std::uint32_t name = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t external_id = 0;  // of the operator that started it
  std::uint64_t correlation = 0;  // with the call that started it
  std::uint64_t device = 0;
};

struct KinetoMemory {
  std::uint64_t at_ns = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;             // below 0: freed
  std::int64_t device = -1;           // -1: the host
  std::uint64_t allocated_bytes = 0;  // "Total Allocated", after it
};

struct KinetoFile {
  std::vector<KinetoOperator> operators;  // in the order of the file
  std::vector<KinetoInput> inputs;
  std::vector<KinetoWork> work;
  std::vector<KinetoMemory> memory;
  std::unordered_map<std::uint64_t, std::uint64_t> calls_ns;  // by correlation, when the call began
  std::unordered_map<std::uint64_t, std::string> device_names;
  Names names;
};

// Reads all of `text`, of at most kMaxKernels events of each kind and kMaxImportedInputs inputs.
// Events of other kinds are skipped. kInvalidInput with the place (traceEvents[12]), no file name.
[[nodiscard]] Result<KinetoFile> read_kineto(ByteSource& text);

// Bytes of an element of "float", "c10::Half", ...; nothing where that is no type of tensors.
[[nodiscard]] std::optional<std::uint32_t> element_bytes_of(const std::string& type);

}  // namespace spillway
