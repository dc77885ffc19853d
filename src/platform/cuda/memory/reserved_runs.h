// Runs of addresses that the program has reserved to allocate at addresses of its own choice, and
// which parts of them are an allocation's, or were and may still be mapped. Layer: platform, cuda.
// Knows numbers only. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/units.h"

namespace spillway::cuda {

class ReservedRuns {
 public:
  struct Run {
    std::uint64_t start = 0;
    Bytes bytes = 0;
  };

  void add(const Run& run) { runs_.emplace(run.start, Reserved{.bytes = run.bytes}); }
  // The program needs the run no more. What lies in it stays until it is gone; the run is nobody's
  // then. nullopt: something still lies there, or none begins there.
  [[nodiscard]] std::optional<Run> end(std::uint64_t start);

  // Something lies there from now on; and no longer. The run in which that was, if it has ended and
  // is empty now.
  void take(std::uint64_t address, Bytes bytes);
  [[nodiscard]] std::optional<Run> give_back(std::uint64_t address);

  [[nodiscard]] bool contains(std::uint64_t address) const { return run_of(address) != nullptr; }
  // All of it is in one run, and nothing lies there.
  [[nodiscard]] bool is_free(std::uint64_t address, Bytes bytes) const;
  // What lies in these bytes, lowest first.
  [[nodiscard]] std::vector<Run> within(std::uint64_t address, Bytes bytes) const;
  // What lies in the run of this address, and has some of the bytes `among`; empty if there is no
  // run.
  [[nodiscard]] std::vector<Run> beside(std::uint64_t address, const Run& among) const;

 private:
  struct Reserved {
    Bytes bytes = 0;
    bool ended = false;
    std::map<std::uint64_t, Bytes> taken = {};
  };
  using Runs = std::map<std::uint64_t, Reserved>;
  [[nodiscard]] const Runs::value_type* run_of(std::uint64_t address) const;
  [[nodiscard]] Runs::value_type* run_of(std::uint64_t address);

  Runs runs_;  // by start
};

}  // namespace spillway::cuda
