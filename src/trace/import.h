// Traces from files that other tools have written: Chakra execution traces, Kineto's Chrome traces,
// memory snapshots of CUDA. Layer: trace. docs/traces.md, "Imported", has what each cannot say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "trace/format/byte_source.h"
#include "trace/trace.h"

namespace spillway {

enum class ImportFormat : std::uint8_t { kNone, kChakra, kKineto, kSnapshot };

// From the beginning of a file, after decompression. kNone where it is none of them.
[[nodiscard]] ImportFormat import_format(std::string_view start);
// "a Chakra execution trace", for messages.
[[nodiscard]] std::string_view describe(ImportFormat format);

struct ImportOptions {
  // Which iteration; without it the last that the file marks.
  std::optional<std::uint64_t> iteration;
};

struct Imported {
  Trace trace;  // valid
  ImportFormat format = ImportFormat::kNone;
  std::string iteration;  // "ProfilerStep#3", "all of the file"
  std::vector<std::string>
      notes;  // what the source cannot say, and what was made of that; a line each
};

// Reads `source`, plain or gzip. `kineto` is the Kineto trace of the same run, for the times of a
// Chakra execution trace; nullptr for none. Errors are one line that begins with the name of the
// file that is to blame and says the place: kInvalidInput for bad contents. Memory is bounded by
// trace/limits.h, whatever the files say.
struct NamedSource {
  ByteSource& source;
  std::string_view name;
};
[[nodiscard]] Result<Imported> import_trace(NamedSource file, const NamedSource* kineto,
                                            const ImportOptions& options);
// The same of files; kIo for what the operating system refuses.
[[nodiscard]] Result<Imported> import_trace(const std::filesystem::path& file,
                                            const std::optional<std::filesystem::path>& kineto,
                                            const ImportOptions& options);

}  // namespace spillway
