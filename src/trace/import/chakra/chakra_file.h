// A Chakra execution trace as PyTorch's ExecutionTraceObserver writes it. Layer: trace.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "trace/format/byte_source.h"
#include "trace/import/names.h"

namespace spillway {

// A tensor among a node's inputs or outputs.
struct ChakraUse {
  std::uint64_t storage = 0;  // an object's address, numbered; comes back for others
  Bytes bytes = 0;            // from the storage's beginning to the tensor's last element
  std::uint32_t device = 0;   // in ChakraFile::devices
  bool changed = false;       // by the operator's schema
};

struct ChakraNode {
  std::uint64_t id = 0;      // in the order in which nodes began
  std::uint64_t parent = 0;  // a smaller id; of a root its own id or any that is not smaller
  std::uint64_t rf_id = 0;   // what Kineto calls "Record function id"
  std::uint32_t name = 0;
  std::uint32_t inputs = 0;  // how many of uses
  std::uint32_t outputs = 0;
  std::uint64_t first_use = 0;  // in ChakraFile::uses: inputs, then outputs
  bool has_schema = false;      // an operator of the dispatcher
  bool is_kernel = false;       // says itself which backend computes it (Triton)
};

struct ChakraFile {
  std::vector<ChakraNode> nodes;  // by id
  std::vector<ChakraUse> uses;
  Names names;
  Names devices;
};

// Reads all of `text`, of at most kMaxKernels nodes and kMaxImportedInputs uses. kInvalidInput with
// the place (nodes[12]), no file name.
[[nodiscard]] Result<ChakraFile> read_chakra(ByteSource& text);

}  // namespace spillway
