// What every reader owes whatever the bytes: a valid trace that survives writing, or one line.
// For the fuzz targets and for the tests that replay their corpus.
#pragma once

#include <string>
#include <string_view>

#include "trace/checker.h"
#include "trace/format/native_writer.h"
#include "trace/import.h"
#include "trace/read.h"
#include "trace/validate.h"

namespace spillway {

// What was wrong with the reader's answer, "" where it kept its contract.
inline std::string contract_breach(const Result<Trace>& answer) {
  if (!answer) {
    const Error& error = answer.error();
    if (error.code != ErrorCode::kInvalidInput) {
      return "blames something else than the input: " + error.message;
    }
    return is_plain_text(error.message) && !error.message.empty() ? "" : "more than one line";
  }
  if (const Status status = validate_trace(*answer, "read"); !status) {
    return status.error().message;
  }
  const Result<std::string> bytes = encode_native_trace(*answer);
  if (!bytes) {
    return bytes.error().message;
  }
  MemorySource source(*bytes);
  const Result<Trace> again = read_trace(source, "again");
  if (!again) {
    return again.error().message;
  }
  return *again == *answer ? "" : "differs after writing and reading it";
}

// A file of unknown format.
inline std::string file_breach(std::string_view bytes) {
  MemorySource source(bytes);
  return contract_breach(read_trace(source, "input"));
}

// A file that another tool has written. `kineto` has times for it; "" for none.
inline std::string import_breach(std::string_view bytes, std::string_view kineto = "") {
  MemorySource source(bytes);
  MemorySource times(kineto);
  const NamedSource with{times, "times"};
  Result<Imported> answer = import_trace({source, "input"}, kineto.empty() ? nullptr : &with, {});
  return answer ? contract_breach(std::move(answer->trace))
                : contract_breach(tl::unexpected(answer.error()));
}

}  // namespace spillway
