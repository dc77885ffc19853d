// Simulations for a report. See estimate_rows.h.
#include "cli/estimate/estimate_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "analysis/checkpointing.h"
#include "cli/progress.h"
#include "cli/run/run_child.h"
#include "runtime/estimate.h"
#include "runtime/estimate_batches.h"
#include "trace/read.h"

namespace spillway {
namespace {

constexpr std::string_view kComparedPolicy = "lookahead";  // docs/results.md

// Traces in files, as the simulator's batches want them. They are gone with this.
class TraceFiles {
 public:
  Result<std::size_t> keep(const Trace& trace) {
    if (const Status made = folder_.made(); !made) {
      return tl::unexpected<Error>(made.error());
    }
    std::filesystem::path file(fmt::format("{}/{}.swt", folder_.path(), files_.size()));
    if (const Status status = write_trace(trace, file); !status) {
      return tl::unexpected<Error>(status.error());
    }
    files_.push_back(std::move(file));
    return files_.size() - 1;
  }

  [[nodiscard]] std::vector<BatchOutcome> run(std::span<const BatchJob> jobs) const {
    Progress progress(jobs.size());
    return run_batch(files_, jobs, std::max(1U, std::thread::hardware_concurrency()),
                     [&](std::size_t done) { progress.set_done(done); });
  }

 private:
  RecordFolder folder_;
  std::vector<std::filesystem::path> files_;
};

class Rows {
 public:
  Rows(const EstimateSource& source, const std::vector<Machine>& machines, const PolicyInfo& policy)
      : source_(source),
        machines_(machines),
        policy_(policy),
        checkpoints_(checkpoints_of(source.traces.front())) {}

  [[nodiscard]] const Result<Checkpoints>& checkpoints() const { return checkpoints_; }

  Result<std::vector<EstimateRow>> rows() {
    std::vector<EstimateRow> rows;
    rows.reserve(machines_.size());
    for (const Machine& machine : machines_) {
      rows.push_back({.machine = machine});
    }
    Status added = add_estimates(rows);
    if (added && source_.growth) {
      add_largest_batches(*source_.growth, rows);
      added = add_worth(rows);
    }
    if (!added) {
      return tl::unexpected<Error>(added.error());
    }
    return rows;
  }

 private:
  Result<std::vector<EstimateCase>> cases() {
    std::vector<EstimateCase> cases;
    std::vector<std::pair<std::size_t, std::optional<std::size_t>>> files;
    for (const Trace& trace : source_.traces) {
      const Result<std::size_t> plain = files_.keep(trace);
      if (!plain) {
        return tl::unexpected<Error>(plain.error());
      }
      files.emplace_back(*plain, std::nullopt);
      if (checkpoints_) {
        const Result<std::size_t> with = files_.keep(checkpointed(trace, *checkpoints_));
        if (!with) {
          return tl::unexpected<Error>(with.error());
        }
        files.back().second = *with;
      }
    }
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (const std::optional<std::size_t>& of = source_.of_machine[i]; of) {
        cases.push_back({files[*of].first, machines_[i], files[*of].second});
      }
    }
    return cases;
  }

  Status add_estimates(std::vector<EstimateRow>& rows) {
    const auto of = cases();
    if (!of) {
      return tl::unexpected<Error>(of.error());
    }
    auto estimates = estimate(*of, policy_, [this](auto jobs) { return files_.run(jobs); });
    if (!estimates) {
      return tl::unexpected<Error>(estimates.error());
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (source_.of_machine[i]) {
        rows[i].estimate = std::move((*estimates)[next++]);
      }
    }
    return {};
  }

  void add_largest_batches(const BatchMemory& plain, std::vector<EstimateRow>& rows) const {
    std::optional<BatchMemory> with;
    if (checkpoints_ && is_comparable()) {
      const Result<BatchMemory> growth = growth_between(
          {checkpointed(source_.traces.front(), *checkpoints_), source_.batch},
          {checkpointed(source_.larger.front(), *checkpoints_), source_.larger_batch});
      with = growth ? std::optional(*growth) : std::nullopt;
    }
    for (EstimateRow& row : rows) {
      row.largest_batch = largest_batch(plain, row.machine);
      if (with) {
        row.checkpointed_largest_batch = largest_batch(*with, row.machine);
      }
    }
  }

  // Whether the two batches' steps differ in sizes only, so that one's blocks are the other's.
  [[nodiscard]] bool is_comparable() const { return steps_of(0).has_value(); }

  [[nodiscard]] Result<BatchSteps> steps_of(std::size_t trace) const {
    return BatchSteps::between({source_.traces[trace], source_.batch},
                               {source_.larger[trace], source_.larger_batch});
  }

  Status add_worth(std::vector<EstimateRow>& rows) {
    std::vector<BatchSteps> steps;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::optional<std::size_t>& trace = source_.of_machine[i];
      if (!trace) {
        return {};
      }
      Result<BatchSteps> of = steps_of(*trace);
      if (!of) {
        return {};
      }
      steps.push_back(std::move(*of));
    }
    std::vector<BatchCase> cases;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      cases.push_back({.steps = &steps[i],
                       .checkpoints = checkpoints_ ? &*checkpoints_ : nullptr,
                       .machine = rows[i].machine,
                       .fits = rows[i].largest_batch});
    }
    const auto worth = worth_up_to(
        cases, policy_, [this](const Trace& trace) { return files_.keep(trace); },
        [this](auto jobs) { return files_.run(jobs); });
    if (!worth) {
      return tl::unexpected<Error>(worth.error());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].worth = (*worth)[i];
    }
    return {};
  }

  const EstimateSource& source_;
  const std::vector<Machine>& machines_;
  const PolicyInfo& policy_;
  const Result<Checkpoints> checkpoints_;
  TraceFiles files_;
};

std::string said_of(const Checkpoints& checkpoints) {
  std::size_t blocks = 0;
  std::size_t layers = 0;
  for (const CheckpointedPass& each : checkpoints) {
    blocks += each.blocks.size();
    layers = std::max(layers, each.layers);
  }
  const std::string which =
      layers == 0   ? "parts of the forward pass, in which little repeats"
      : layers == 1 ? "layers, which are kernels that repeat"
                    : fmt::format("blocks of {} layers, which are kernels that repeat", layers);
  return fmt::format(
      "Checkpointing by hand is of {} {}: only what leads into each is kept, and its kernels run "
      "again in the backward pass. Of seven steps recorded with PyTorch's own checkpointing the "
      "estimate was 0.99 to 1.01 of the peak and 0.93 to 1.05 of the time; where another part is "
      "checkpointed it is another.",
      blocks, which);
}

}  // namespace

Result<EstimateReport> estimate_report(EstimateSource source, const std::vector<Machine>& machines,
                                       const PolicyInfo& policy) {
  Rows simulated(source, machines, policy);
  Result<std::vector<EstimateRow>> rows = simulated.rows();
  if (!rows) {
    return tl::unexpected<Error>(rows.error());
  }
  const Trace& trace = source.traces.front();
  EstimateReport report{.what = std::move(source.what),
                        .model = trace.model,
                        .policy = std::string(policy.name),
                        .times = source.times,
                        .kernels = trace.kernels.size(),
                        .peak_bytes = peak_bytes_of(trace),
                        .rows = std::move(*rows),
                        .says_batches = source.growth.has_value(),
                        .sure = std::move(source.sure)};
  if (const Result<Checkpoints>& checkpoints = simulated.checkpoints(); checkpoints) {
    report.checkpointed_peak_bytes = peak_bytes_of(checkpointed(trace, *checkpoints));
    report.sure.push_back(said_of(*checkpoints));
  } else {
    report.sure.push_back(
        fmt::format("Checkpointing by hand is not estimated: {}.", checkpoints.error().message));
  }
  if (policy.name == kComparedPolicy) {
    report.sure.emplace_back(
        "Simulated steps under lookahead took 0.84 to 1.07 of what they took on an H200, where "
        "that was measured.");
  }
  for (const Machine& machine : machines) {
    report.sure.push_back(fmt::format("{}: {}.", machine.name, machine.source));
  }
  return report;
}

}  // namespace spillway
