// Running the cases of figures, each simulation once. Layer: runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "machine/machine.h"
#include "runtime/batch.h"
#include "runtime/reproduce/reference.h"

namespace spillway::reproduce {

enum class CaseState : std::uint8_t {
  kRan,
  kCannotRun,  // the policy cannot run the trace on this machine
  kNoPolicy,   // there is no policy of this name
  kNoTrace,    // there is no trace file, or it cannot be read
  kFailed,     // the simulation failed
};

// "cannot run", "no trace", ...; "" for kRan.
[[nodiscard]] std::string_view name_of(CaseState state);

struct CaseOutcome {
  CaseState state = CaseState::kNoTrace;
  const BatchOutcome* simulation = nullptr;  // where one was attempted; owned by the Study
};

// Cases, the fewest simulations that answer them all, and their outcomes.
class Study {
 public:
  // Looks for the trace files, DIR/<model>-<batch_size>.json.gz or .json or .swt, and for the
  // policies. `machine` is varied as each case says. Fails with kInvalidInput where the machine
  // cannot be, naming the case.
  static Result<Study> plan(std::span<const Case> cases, const std::filesystem::path& traces,
                            const Machine& machine);

  [[nodiscard]] std::size_t simulations() const { return jobs_.size(); }
  // As run_batch.
  void run(std::size_t workers, const std::function<void(std::size_t done)>& on_done);

  // After run(), of a case that was planned.
  [[nodiscard]] CaseOutcome outcome(const Case& subject) const;
  // One line for each policy and trace that is missing and each trace and simulation that failed.
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  struct Planned {
    CaseState state = CaseState::kNoTrace;  // kRan: see the job
    std::size_t job = 0;
  };

  std::map<Case, Planned> cases_;
  std::vector<std::filesystem::path> files_;
  std::vector<BatchJob> jobs_;
  std::vector<BatchOutcome> outcomes_;  // by job
  std::vector<std::string> complaints_;
};

}  // namespace spillway::reproduce
