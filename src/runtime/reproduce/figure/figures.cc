// The paper's figures. See figures.h.
#include "runtime/reproduce/figure/figures.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway::reproduce {
namespace {

using Names = std::string_view;

constexpr std::array<Names, 7> kOverall{"base_uvm", "flashneuron", "deepum_plus", "g10_gds",
                                        "g10_host", "g10",         "ideal"};
constexpr std::array<Names, 4> kFour{"base_uvm", "flashneuron", "deepum_plus", "g10"};
constexpr std::array<Names, 5> kFive{"base_uvm", "flashneuron", "deepum_plus", "g10", "ideal"};
constexpr std::array<Names, 1> kOnlyG10{"g10"};
constexpr std::array<Names, 2> kHostBaselines{"flashneuron", "deepum_plus"};

// Figures 16 and 17 share their rows: G10's are compared under 16, the others' under 17.
constexpr std::array<FigureDefinition, 9> kFigures{{
    {11, "Training throughput, normalized to ideal", "fig11_overall", kOverall, true,
     Chart::kThroughput},
    {12, "Breakdown of an iteration", "fig12_breakdown", kFour, true, Chart::kBreakdown},
    {13, "Slowdown of kernels", "fig11_overall", kFour, false, Chart::kSlowdown},
    {14, "Migration traffic of an iteration", "fig14_traffic", kFour, true, Chart::kTraffic},
    {15, "Training throughput by batch size", "fig15_batch", kFive, true, Chart::kBatchSizes},
    {16, "G10 by host memory", "fig16_17_host_memory", kOnlyG10, true, Chart::kHostBatches},
    {17, "Policies by host memory", "fig16_17_host_memory", kHostBaselines, true,
     Chart::kHostPolicies},
    {18, "Performance by SSD bandwidth, normalized to ideal", "fig18_ssd_bandwidth", kFive, true,
     Chart::kSsdBandwidth},
    {19, "G10 under profiling errors, normalized to none", "fig19_profiling_error", kOnlyG10, true,
     Chart::kProfilingError},
}};

// What figure 17 draws. The paper has ViT with batches of 1024, of which there is no trace.
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 2> kHostCases{
    {{"vit", 1280}, {"inceptionv3", 1280}}};
constexpr std::array<Names, 3> kHostPolicies{"flashneuron", "deepum_plus", "g10"};
constexpr std::array<double, 6> kHostGib{0, 16, 32, 64, 128, 256};

constexpr std::array<PolicyStyle, 8> kStyles{{
    {"base_uvm", "Base UVM", 7},
    {"flashneuron", "FlashNeuron", 1},
    {"deepum", "DeepUM", 6},
    {"deepum_plus", "DeepUM+", 2},
    {"g10_gds", "G10-GDS", 4},
    {"g10_host", "G10-Host", 5},
    {"g10", "G10", 0},
    {"ideal", "Ideal", 3},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kModels{{
    {"bert", "BERT"},
    {"vit", "ViT"},
    {"inceptionv3", "Inceptionv3"},
    {"resnet152", "ResNet152"},
    {"senet154", "SENet154"},
}};

constexpr std::array<Names, 1> kIdeal{"ideal"};
constexpr std::array<Names, 3> kBaselines{"base_uvm", "deepum_plus", "flashneuron"};
constexpr std::array<Names, 3> kPlanned{"g10_gds", "g10_host", "g10"};

constexpr std::array<Criterion, 3> kCriteria{{
    {"ideal within 0.1 %", kIdeal, 0.001, 0.001},
    {"base_uvm, deepum_plus, flashneuron within 25 %", kBaselines, 0.25, 0.25},
    {"g10_gds, g10_host, g10 at most 10 % slower", kPlanned, 0.10, std::nullopt},
}};

bool has(std::span<const Names> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::span<const FigureDefinition> figures() { return kFigures; }

bool belongs(const ReferenceRow& row, const FigureDefinition& figure) {
  return figure.compares && row.figure == figure.reference &&
         has(figure.policies, row.subject.policy);
}

std::vector<Case> drawn_cases(const FigureDefinition& figure,
                              std::span<const ReferenceRow> reference) {
  std::vector<std::pair<std::string, std::uint64_t>> cases;  // in the order of the reference
  const auto has_case = [&](const std::pair<std::string, std::uint64_t>& wanted) {
    return std::find(cases.begin(), cases.end(), wanted) != cases.end();
  };
  for (const ReferenceRow& row : reference) {
    std::pair found(row.subject.model, row.subject.batch_size);
    if (row.figure == figure.reference && !has_case(found)) {
      cases.push_back(std::move(found));
    }
  }
  std::vector<Case> drawn;
  if (figure.chart == Chart::kSlowdown) {
    for (const auto& [model, batch_size] : cases) {
      for (const Names policy : figure.policies) {
        drawn.push_back({model, batch_size, std::string(policy), {}});
      }
    }
  }
  if (figure.chart == Chart::kHostPolicies) {
    for (const auto& [model, batch_size] : kHostCases) {
      if (!has_case({std::string(model), batch_size})) {
        continue;
      }
      for (const Names policy : kHostPolicies) {
        for (const double gib : kHostGib) {
          drawn.push_back({std::string(model), batch_size, std::string(policy), {.host_gib = gib}});
        }
      }
    }
  }
  return drawn;
}

PolicyStyle style_of(std::string_view policy) {
  const auto* const found =
      std::find_if(kStyles.begin(), kStyles.end(),
                   [policy](const PolicyStyle& style) { return style.policy == policy; });
  return found == kStyles.end() ? PolicyStyle{policy, policy, 6} : *found;
}

std::string model_label(std::string_view model) {
  const auto* const found = std::find_if(
      kModels.begin(), kModels.end(), [model](const auto& entry) { return entry.first == model; });
  return std::string(found == kModels.end() ? model : found->second);
}

std::span<const Criterion> criteria() { return kCriteria; }

const Criterion* criterion_of(const ReferenceRow& row) {
  if (row.metric != Metric::kIterationS && row.metric != Metric::kFractionOfIdeal) {
    return nullptr;
  }
  const auto* const found = std::find_if(
      kCriteria.begin(), kCriteria.end(),
      [&](const Criterion& criterion) { return has(criterion.policies, row.subject.policy); });
  return found == kCriteria.end() ? nullptr : found;
}

}  // namespace spillway::reproduce
