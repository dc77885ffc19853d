// One importer for each format, behind import_trace. Layer: trace.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/units.h"
#include "trace/format/byte_source.h"
#include "trace/import.h"

namespace spillway {

// Of a kernel whose time is not in the file.
inline constexpr TimeNs kUnknownDurationNs = 1000;

// What a Kineto trace says about one operator of a Chakra trace, by "Record function id".
struct OperatorTime {
  std::string name;
  TimeNs host_ns = 0;    // from the operator's beginning to its end
  TimeNs device_ns = 0;  // of the kernels, copies and memsets that it started itself
};

struct OperatorTimes {
  std::unordered_map<std::uint64_t, OperatorTime> by_rf_id;
  bool on_device = false;  // there are kernels: then the host's times do not count
  std::string device;      // its name, "" where unknown
};

// Each reads all of its source. Errors are kInvalidInput with the place, without the file's name.
[[nodiscard]] Result<Imported> import_chakra(ByteSource& text, const OperatorTimes* times,
                                             const ImportOptions& options);
[[nodiscard]] Result<Imported> import_kineto(ByteSource& text, const ImportOptions& options);
[[nodiscard]] Result<Imported> import_snapshot(ByteSource& pickle, const ImportOptions& options);
// kInvalidInput where no operator has a "Record function id", by which operators are linked.
[[nodiscard]] Result<OperatorTimes> read_operator_times(ByteSource& text);

}  // namespace spillway
