// A search over batch sizes, a few simulations of every case at a time. See estimate_batches.h.
#include "runtime/estimate_batches.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "policy/registry.h"

namespace spillway {
namespace {

constexpr int kRounds = 3;
constexpr std::uint64_t kNearEnough = 16;

// Where it ends lies between these.
struct Bracket {
  std::uint64_t worth = 0;
  std::optional<std::uint64_t> not_worth;

  [[nodiscard]] bool near_enough() const {
    return not_worth && *not_worth - worth <= std::max<std::uint64_t>(1, worth / kNearEnough);
  }

  [[nodiscard]] std::set<std::uint64_t> next() const {
    std::set<std::uint64_t> batches;
    if (near_enough()) {
      return batches;
    }
    if (not_worth) {
      constexpr std::uint64_t kBetween = 3;
      for (std::uint64_t i = 1; i <= kBetween; ++i) {
        batches.insert(worth + (*not_worth - worth) * i / (kBetween + 1));
      }
    } else if (worth == 0) {
      batches = {1, 2, 4, 8};
    } else {
      constexpr std::array kTimes{1.25, 1.5, 2.0, 3.0};
      for (const double times : kTimes) {
        batches.insert(static_cast<std::uint64_t>(times * static_cast<double>(worth)));
      }
    }
    batches.erase(worth);
    return batches;
  }
};

// Half of what estimates of one batch take: only which of two is longer matters here.
SimulationOptions short_options() {
  SimulationOptions options = estimate_options();
  options.warm_up_iterations = 2;
  options.iterations = 2;
  return options;
}

struct Probe {
  std::size_t of = 0;  // the case
  std::uint64_t batch = 0;
};

// How long a step takes; longer than anything where it cannot run.
Result<double> step_ns(const BatchOutcome& outcome) {
  if (outcome.result) {
    return static_cast<double>(outcome.result->iteration_ns);
  }
  if (outcome.result.error().code == ErrorCode::kCannotRun) {
    return std::numeric_limits<double>::infinity();
  }
  return tl::unexpected<Error>(outcome.result.error());
}

// Two for each probe: the step itself, and what it is compared with.
Result<std::vector<BatchJob>> jobs_of(std::span<const Probe> probes,
                                      std::span<const BatchCase> cases, const PolicyInfo& policy,
                                      const TraceKeeper& keep) {
  const PolicyInfo& ideal = *find_policy("ideal").value();
  std::vector<BatchJob> jobs;
  for (const Probe& probe : probes) {
    const BatchCase& of = cases[probe.of];
    const Trace step = of.steps->at(probe.batch);
    const Result<std::size_t> plain = keep(step);
    const Result<std::size_t> other =
        of.checkpoints != nullptr ? keep(checkpointed(step, *of.checkpoints)) : plain;
    if (!plain || !other) {
      return tl::unexpected<Error>(plain ? other.error() : plain.error());
    }
    jobs.push_back({*plain, of.machine, &policy, short_options()});
    jobs.push_back(
        {*other, of.machine, of.checkpoints != nullptr ? &policy : &ideal, short_options()});
  }
  return jobs;
}

// Probes of a case are in ascending order.
Status narrow(std::span<const Probe> probes, std::span<const BatchCase> cases,
              std::span<const BatchOutcome> outcomes, std::vector<Bracket>& brackets) {
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const Result<double> step = step_ns(outcomes[2 * i]);
    const Result<double> other = step_ns(outcomes[2 * i + 1]);
    if (!step || !other) {
      return tl::unexpected<Error>(step ? other.error() : step.error());
    }
    const double times = cases[probes[i].of].checkpoints != nullptr ? 1.0 : kWorth;
    const bool worth = *step != std::numeric_limits<double>::infinity() && *step <= times * *other;
    Bracket& bracket = brackets[probes[i].of];
    if (bracket.not_worth && *bracket.not_worth < probes[i].batch) {
      continue;
    }
    if (worth) {
      bracket.worth = probes[i].batch;
    } else {
      bracket.not_worth = probes[i].batch;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<WorthUpTo>> worth_up_to(std::span<const BatchCase> cases,
                                           const PolicyInfo& policy, const TraceKeeper& keep,
                                           const BatchRunner& run) {
  std::vector<Bracket> brackets;
  for (const BatchCase& each : cases) {
    brackets.push_back({each.fits, std::nullopt});
  }
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Probe> probes;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (const std::uint64_t batch : brackets[i].next()) {
        probes.push_back({i, batch});
      }
    }
    if (probes.empty()) {
      break;
    }
    const Result<std::vector<BatchJob>> jobs = jobs_of(probes, cases, policy, keep);
    if (!jobs) {
      return tl::unexpected<Error>(jobs.error());
    }
    if (Status narrowed = narrow(probes, cases, run(*jobs), brackets); !narrowed) {
      return tl::unexpected<Error>(narrowed.error());
    }
  }
  std::vector<WorthUpTo> found;
  found.reserve(brackets.size());
  for (const Bracket& bracket : brackets) {
    found.push_back({bracket.worth, !bracket.not_worth});
  }
  return found;
}

}  // namespace spillway
