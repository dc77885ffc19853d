// The numbers of one figure, ours and the published, for drawing. Layer: runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plot/figure.h"
#include "runtime/reproduce/figure/figures.h"
#include "runtime/reproduce/run.h"

namespace spillway::reproduce {

enum class Origin : std::uint8_t { kOurs, kPublished };

// "bert" with a batch of 256.
struct Workload {
  std::string model;
  std::uint64_t batch_size = 0;

  friend auto operator<=>(const Workload&, const Workload&) = default;
};

class Numbers {
 public:
  // All must outlive this.
  Numbers(const FigureDefinition& figure, std::span<const ReferenceRow> reference,
          const Study& study);

  // plot::kMissing where there is none.
  [[nodiscard]] double value(Origin origin, const Case& subject, Metric metric) const;
  // The ideal time over the case's time; the published one is by the figure's own ideal rows.
  [[nodiscard]] double fraction_of_ideal(Origin origin, const Case& subject) const;
  // The result, where there is one.
  [[nodiscard]] const BatchOutcome* simulation(const Case& subject) const;

  // What the figure's rows and drawn cases hold, in the order of the reference, each once.
  [[nodiscard]] const std::vector<Workload>& workloads() const { return workloads_; }
  [[nodiscard]] std::vector<std::string> models() const;
  [[nodiscard]] std::vector<std::uint64_t> batch_sizes(const std::string& model) const;
  [[nodiscard]] const std::vector<Case>& cases() const { return cases_; }
  // Of the figure's policies, those that the figure has a case of.
  [[nodiscard]] std::vector<std::string> policies() const;

  [[nodiscard]] bool any(Origin origin) const;

 private:
  const FigureDefinition* figure_;
  std::span<const ReferenceRow> reference_;
  const Study* study_;
  std::vector<Case> cases_;
  std::vector<Workload> workloads_;
};

}  // namespace spillway::reproduce
