// From cases to simulations and back. See run.h.
#include "runtime/reproduce/run.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "machine/load.h"
#include "policy/registry.h"

namespace spillway::reproduce {
namespace {

std::optional<std::filesystem::path> find_trace(const std::filesystem::path& folder,
                                                const Case& subject) {
  for (const char* extension : {".json.gz", ".json", ".swt"}) {
    std::filesystem::path file =
        folder / fmt::format("{}-{}{}", subject.model, subject.batch_size, extension);
    std::error_code error;
    if (std::filesystem::exists(file, error)) {
      return file;
    }
  }
  return std::nullopt;
}

// What a policy leaves unused must not make two simulations of one.
void forget_unused(const PolicyTraits& traits, Machine& machine) {
  if (!traits.uses_host) {
    machine.host.capacity_bytes = 0;
  }
}

// Equal for simulations with equal results.
std::string identity(const std::filesystem::path& file, const BatchJob& job) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", file.string(), job.policy->name,
                     job.options.policy.profiling_error, job.options.policy.profiling_seed,
                     to_toml(job.machine));
}

}  // namespace

std::string_view name_of(CaseState state) {
  switch (state) {
    case CaseState::kRan:
      return "";
    case CaseState::kCannotRun:
      return "cannot run";
    case CaseState::kNoPolicy:
      return "no policy";
    case CaseState::kNoTrace:
      return "no trace";
    case CaseState::kFailed:
      return "failed";
  }
  return "";
}

Result<Study> Study::plan(std::span<const Case> cases, const std::filesystem::path& traces,
                          const Machine& machine) {
  Study study;
  std::map<std::pair<std::string, std::uint64_t>, std::optional<std::size_t>> file_of;
  std::map<std::string, std::size_t> job_of;
  const auto complain = [&](std::string line) {
    auto& lines = study.complaints_;
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(std::move(line));
    }
  };
  for (const Case& subject : cases) {
    const auto [planned, is_new] = study.cases_.try_emplace(subject);
    if (!is_new) {
      continue;
    }
    const auto [file, is_new_file] = file_of.try_emplace({subject.model, subject.batch_size});
    if (is_new_file) {
      if (const auto found = find_trace(traces, subject)) {
        file->second = study.files_.size();
        study.files_.push_back(*found);
      } else {
        complain(fmt::format("{}: no trace {}-{}.json.gz, .json or .swt; its rows stay empty",
                             traces.string(), subject.model, subject.batch_size));
      }
    }
    const Result<const PolicyInfo*> policy = find_policy(subject.policy);
    if (!policy) {
      complain(fmt::format("there is no policy '{}'; its rows stay empty", subject.policy));
      planned->second.state = CaseState::kNoPolicy;
      continue;
    }
    const std::optional<std::size_t> trace = file->second;
    if (!trace) {
      continue;
    }
    BatchJob job{*trace, machine, *policy, {}};
    if (const Status status = apply_variation(subject.variation, job.machine, job.options);
        !status) {
      return make_error(status.error().code, "{}-{}, {}: {}", subject.model, subject.batch_size,
                        to_text(subject.variation), status.error().message);
    }
    forget_unused((*policy)->traits, job.machine);
    const auto [known, is_new_job] =
        job_of.try_emplace(identity(study.files_[job.trace], job), study.jobs_.size());
    if (is_new_job) {
      study.jobs_.push_back(std::move(job));
    }
    planned->second = {CaseState::kRan, known->second};
  }
  return study;
}

void Study::run(std::size_t workers, const std::function<void(std::size_t done)>& on_done) {
  outcomes_ = run_batch(files_, jobs_, workers, on_done);
  std::vector<bool> unreadable(files_.size());
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const std::size_t file = jobs_[i].trace;
    if (!outcomes_[i].trace) {
      if (!unreadable[file]) {
        complaints_.push_back(outcomes_[i].trace.error().message);
      }
      unreadable[file] = true;
    } else if (!outcomes_[i].result && outcomes_[i].result.error().code != ErrorCode::kCannotRun) {
      complaints_.push_back(
          fmt::format("{}: {}", files_[file].string(), outcomes_[i].result.error().message));
    }
  }
}

CaseOutcome Study::outcome(const Case& subject) const {
  const auto found = cases_.find(subject);
  if (found == cases_.end() || found->second.state != CaseState::kRan) {
    return {found == cases_.end() ? CaseState::kNoTrace : found->second.state, nullptr};
  }
  const BatchOutcome& simulation = outcomes_[found->second.job];
  const CaseState state = !simulation.trace   ? CaseState::kNoTrace
                          : simulation.result ? CaseState::kRan
                          : simulation.result.error().code == ErrorCode::kCannotRun
                              ? CaseState::kCannotRun
                              : CaseState::kFailed;
  return {state, &simulation};
}

}  // namespace spillway::reproduce
