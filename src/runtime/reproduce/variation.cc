// Variations as text, and applying them. See variation.h.
#include "runtime/reproduce/variation.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "machine/load.h"

namespace spillway::reproduce {
namespace {

struct Key {
  std::string_view name;
  std::optional<double> Variation::*value;
  std::string_view unit;  // after the number
};

constexpr std::array<Key, 4> kKeys{{
    {"host_gib", &Variation::host_gib, ""},
    {"ssd_gbps", &Variation::ssd_gbps, ""},
    {"pcie_gbps", &Variation::pcie_gbps, ""},
    {"error", &Variation::error_percent, "%"},
}};

Status parse_part(std::string_view part, Variation& variation) {
  for (const Key& key : kKeys) {
    if (!part.starts_with(key.name) || part.substr(key.name.size()).substr(0, 1) != "=") {
      continue;
    }
    const std::string_view value = part.substr(key.name.size() + 1);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const auto used = static_cast<std::size_t>(end - value.data());
    if (error != std::errc() || !std::isfinite(number) || number < 0 ||
        value.substr(used) != key.unit) {
      return make_error(ErrorCode::kInvalidInput, "variation '{}': write {}=NUMBER{}", part,
                        key.name, key.unit);
    }
    if (variation.*key.value) {
      return make_error(ErrorCode::kInvalidInput, "variation '{}': {} is there twice", part,
                        key.name);
    }
    variation.*key.value = number;
    return {};
  }
  return make_error(
      ErrorCode::kInvalidInput,
      "variation '{}' is not known; use host_gib=, ssd_gbps=, pcie_gbps= or error=", part);
}

}  // namespace

Result<Variation> parse_variation(std::string_view text) {
  Variation variation;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    if (const Status status = parse_part(text.substr(0, end), variation); !status) {
      return tl::unexpected<Error>(status.error());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return variation;
}

std::string to_text(const Variation& variation) {
  std::string text;
  for (const Key& key : kKeys) {
    if (const std::optional<double>& value = variation.*key.value) {
      text += fmt::format("{}{}={}{}", text.empty() ? "" : ";", key.name, *value, key.unit);
    }
  }
  return text;
}

Status apply_variation(const Variation& variation, Machine& machine, SimulationOptions& options) {
  std::vector<std::string> settings;
  if (variation.host_gib) {
    settings.push_back(fmt::format("host.capacity={}GiB", *variation.host_gib));
  }
  if (variation.ssd_gbps) {
    settings.push_back(fmt::format("storage.bandwidth={}GB/s", *variation.ssd_gbps));
  }
  if (variation.pcie_gbps) {
    settings.push_back(fmt::format("link.bandwidth={}GB/s", *variation.pcie_gbps));
  }
  for (const std::string& setting : settings) {
    if (Status status = apply_setting(machine, setting); !status) {
      return status;
    }
  }
  if (variation.error_percent) {
    options.policy.profiling_error = *variation.error_percent / 100;
  }
  return validate_machine(machine);
}

}  // namespace spillway::reproduce
