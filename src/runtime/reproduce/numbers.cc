// Looking numbers up. See numbers.h.
#include "runtime/reproduce/numbers.h"

#include <algorithm>
#include <cmath>

#include "runtime/reproduce/compare.h"

namespace spillway::reproduce {
namespace {

template <typename T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) {
    list.push_back(value);
  }
}

}  // namespace

Numbers::Numbers(const FigureDefinition& figure, std::span<const ReferenceRow> reference,
                 const Study& study)
    : figure_(&figure), reference_(reference), study_(&study) {
  const FigureDefinition* const one = &figure;
  for (const Case& subject : cases_of({&one, 1}, reference)) {
    add_once(cases_, subject);
    add_once(workloads_, Workload{subject.model, subject.batch_size});
  }
}

double Numbers::value(Origin origin, const Case& subject, Metric metric) const {
  if (origin == Origin::kOurs) {
    const BatchOutcome* outcome = simulation(subject);
    return outcome == nullptr ? plot::kMissing : metric_value(metric, *outcome->result);
  }
  const auto row =
      std::find_if(reference_.begin(), reference_.end(), [&](const ReferenceRow& candidate) {
        return candidate.figure == figure_->reference && candidate.metric == metric &&
               candidate.subject == subject;
      });
  return row == reference_.end() ? plot::kMissing : row->value.value_or(plot::kMissing);
}

double Numbers::fraction_of_ideal(Origin origin, const Case& subject) const {
  if (origin == Origin::kOurs) {
    return value(origin, subject, Metric::kFractionOfIdeal);
  }
  Case ideal = subject;
  ideal.policy = "ideal";
  return value(origin, ideal, Metric::kIterationS) / value(origin, subject, Metric::kIterationS);
}

const BatchOutcome* Numbers::simulation(const Case& subject) const {
  const CaseOutcome outcome = study_->outcome(subject);
  return outcome.state == CaseState::kRan ? outcome.simulation : nullptr;
}

std::vector<std::string> Numbers::models() const {
  std::vector<std::string> models;
  for (const Workload& workload : workloads_) {
    add_once(models, workload.model);
  }
  return models;
}

std::vector<std::uint64_t> Numbers::batch_sizes(const std::string& model) const {
  std::vector<std::uint64_t> sizes;
  for (const Workload& workload : workloads_) {
    if (workload.model == model) {
      sizes.push_back(workload.batch_size);
    }
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::vector<std::string> Numbers::policies() const {
  std::vector<std::string> policies;
  for (const std::string_view policy : figure_->policies) {
    if (std::any_of(cases_.begin(), cases_.end(),
                    [policy](const Case& subject) { return subject.policy == policy; })) {
      policies.emplace_back(policy);
    }
  }
  return policies;
}

bool Numbers::any(Origin origin) const {
  if (origin == Origin::kOurs) {
    return std::any_of(cases_.begin(), cases_.end(),
                       [&](const Case& subject) { return simulation(subject) != nullptr; });
  }
  return std::any_of(reference_.begin(), reference_.end(), [&](const ReferenceRow& row) {
    return belongs(row, *figure_) && row.value.has_value();
  });
}

}  // namespace spillway::reproduce
