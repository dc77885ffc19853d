// Where the step comes from that `spillway estimate` simulates: a recording without a GPU, or a
// trace's file. Layer: cli.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/batch_memory.h"
#include "base/error.h"
#include "machine/machine.h"
#include "trace/trace.h"

namespace spillway {

// In the command it stands for the batch size.
inline constexpr std::string_view kBatchWord = "{batch}";

struct EstimatedProgram {
  std::vector<std::string> command;    // or a trace's file alone
  std::vector<std::uint64_t> batches;  // none, or two
  unsigned warm_up = 2;
};

struct EstimateSource {
  std::string what;           // the command, or the file
  std::vector<Trace> traces;  // the same but for the times
  // Which of them has a machine's times, by machine; nullopt: none.
  std::vector<std::optional<std::size_t>> of_machine;
  std::string times;                  // whose they are, in a few words
  std::vector<std::string> sure;      // how sure that is, a sentence each
  std::optional<BatchMemory> growth;  // of two batches
  std::vector<Trace> larger;          // beside `traces`, of the second batch; none without growth
  std::uint64_t batch = 0;            // of `traces`, and of `larger`
  std::uint64_t larger_batch = 0;
  // Of a program that ended without a recorded step, which has been said. Else 0.
  int status = 0;
};

// Records the step as on the first of the machines, with the times of each; or reads the trace.
// Fails as record_without_gpu and read_trace do.
[[nodiscard]] Result<EstimateSource> estimate_source(const EstimatedProgram& program,
                                                     const std::vector<Machine>& machines);

}  // namespace spillway
