// What other programs answer: the GPU's driver, Python.
// See doctor_checks.h.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "cli/doctor/doctor_checks.h"
#include "cli/doctor/doctor_child.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> gpu_nodes() {
  std::vector<std::string> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    constexpr std::string_view kPrefix = "nvidia";
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
        std::all_of(name.begin() + kPrefix.size(), name.end(),
                    [](char c) { return c >= '0' && c <= '9'; })) {
      nodes.push_back(entry.path());
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

Fact driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string version;
  std::getline(file, version);
  constexpr std::string_view kField = "NVRM version: ";
  if (version.starts_with(kField)) {
    version.erase(0, kField.size());
  }
  const bool there = !version.empty();
  return {.key = "driver",
          .mark = there ? Mark::kOk : Mark::kMissing,
          .text = there ? version : "the NVIDIA driver is not loaded",
          .advice = there ? "" : "`modprobe nvidia` as root loads it where it is installed",
          .value = there ? Json(version) : Json(nullptr)};
}

Fact nvidia_smi() {
  const Result<ChildOutcome> outcome = run_child(
      {"nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"}, 20s);
  Fact fact{
      .key = "nvidia_smi", .mark = Mark::kOk, .text = "", .advice = "", .value = Json::array()};
  if (!outcome || outcome->status != 0) {
    fact.mark = Mark::kMissing;
    fact.text = !outcome ? outcome.error().message
                         : fmt::format("nvidia-smi failed: {}",
                                       last_line(outcome->err + "\n" + outcome->out));
    fact.advice = "`cat /proc/driver/nvidia/version` and `dmesg | grep -i nvrm` say more";
    return fact;
  }
  for (std::string rest = outcome->out; !rest.empty();) {
    const std::string line = first_line(rest);
    rest.erase(0, line.size() + 1);
    fact.value.push_back(line);
    fact.text += fmt::format("{}{}", fact.text.empty() ? "" : "; ", line);
  }
  return fact;
}

}  // namespace

FactGroup check_gpu() {
  FactGroup group{.key = "gpu", .title = "GPU", .facts = {}};
  const std::vector<std::string> nodes = gpu_nodes();
  group.facts.push_back({.key = "devices",
                         .mark = nodes.empty() ? Mark::kMissing : Mark::kOk,
                         .text = nodes.empty()
                                     ? "no NVIDIA GPU: no /dev/nvidia0; `spillway run` needs none"
                                     : fmt::format("{}", fmt::join(nodes, ", ")),
                         .advice = "",
                         .value = nodes});
  if (!nodes.empty()) {
    group.facts.push_back(driver());
    group.facts.push_back(nvidia_smi());
  }
  add_driver_facts(group);
  return group;
}

FactGroup check_python() {
  // One line of JSON, the last: what is imported may print as well.
  constexpr const char* kQuestion = R"(import json, sys
answer = {"python": sys.version.split()[0]}
try:
    import torch
    answer["pytorch"] = torch.__version__
    answer["operators"] = bool(torch.profiler.itt.is_available())
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
print(json.dumps(answer)))";
  FactGroup group{.key = "python", .title = "Python", .facts = {}};
  const Result<ChildOutcome> outcome = run_child({"python3", "-c", kQuestion}, 30s);
  const Json answer =
      outcome ? Json::parse(last_line(outcome->out), nullptr, false) : Json(nullptr);
  if (!answer.is_object()) {
    group.facts.push_back(
        {.key = "python",
         .mark = Mark::kMissing,
         .text = !outcome ? outcome.error().message
                          : fmt::format("python3 failed: {}", last_line(outcome->err)),
         .advice = !outcome && outcome.error().code == ErrorCode::kUnsupported
                       ? "Python programs need it: `apt-get install python3` as root"
                       : "`python3 -c 'import torch'` shows it again",
         .value = nullptr});
    return group;
  }
  const std::string version = answer.value("python", "");
  group.facts.push_back({.key = "python",
                         .mark = Mark::kOk,
                         .text = "Python " + version,
                         .advice = "",
                         .value = version});
  if (!answer.contains("pytorch")) {
    group.facts.push_back({.key = "pytorch",
                           .mark = Mark::kMissing,
                           .text = "no PyTorch in python3: " + answer.value("error", ""),
                           .advice = "programs that use it need it: `python3 -m pip install torch`",
                           .value = nullptr});
    return group;
  }
  const std::string torch = answer.value("pytorch", "");
  group.facts.push_back({.key = "pytorch",
                         .mark = Mark::kOk,
                         .text = "PyTorch " + torch,
                         .advice = "",
                         .value = torch});
  const bool seen = answer.value("operators", false);
  group.facts.push_back(
      {.key = "operators",
       .mark = seen ? Mark::kOk : Mark::kSlow,
       .text = seen ? "its operators can be seen, so what they use can be fetched ahead (ITT)"
                    : "its operators cannot be seen: it was built without ITT",
       .advice = seen ? "" : "the builds of pytorch.org have it: `python3 -m pip install torch`",
       .value = seen});
  return group;
}

}  // namespace spillway
