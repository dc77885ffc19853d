// See plan_command.h.
#include "cli/simulate/plan_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/complain.h"
#include "cli/simulate/torch_plan.h"
#include "machine/load.h"
#include "policy/registry.h"
#include "trace/read.h"

namespace spillway {
namespace {

struct PlanOptions {
  std::string trace;
  std::string machine = "a100-40gb";
  std::vector<std::string> settings;
  std::string policy = "g10";
  PolicyOptions planner;
  bool json = false;
  std::string as = "program";
};

std::string_view name_of_step(PlanStep step) {
  switch (step) {
    case PlanStep::kAlloc:
      return "alloc";
    case PlanStep::kFree:
      return "free";
    case PlanStep::kPrefetch:
      return "prefetch";
    case PlanStep::kPreEvict:
      return "pre_evict";
  }
  return "";
}

void print_json(const Plan& plan, const Trace& trace) {
  for (std::size_t kernel = 0; kernel < plan.before.size(); ++kernel) {
    for (const PlanAction& action : plan.before[kernel]) {
      nlohmann::ordered_json line{{"before_kernel", kernel},
                                  {"step", name_of_step(action.step)},
                                  {"tensor", action.tensor},
                                  {"bytes", trace.tensors[action.tensor].bytes}};
      if (action.step == PlanStep::kPreEvict) {
        line["to"] = name_of(action.to);
      }
      fmt::print("{}\n", line.dump());
    }
  }
}

void print_program(const Plan& plan, const Trace& trace, const PlanOptions& options) {
  fmt::print("// {} {} under {} on {}: an iteration of {} expected\n", trace.model,
             trace.batch_size, options.policy, options.machine, format_time(plan.estimated_ns));
  fmt::print("// pre-evicted in an iteration: {} to host, {} to storage{}\n",
             format_bytes(plan.to_host_bytes), format_bytes(plan.to_storage_bytes),
             plan.fits ? "" : "; some kernels need more than that frees, and will evict more");
  fmt::print("{}", render_program(plan, trace));
}

int run(const PlanOptions& options) {
  const Result<const PolicyInfo*> policy = find_policy(options.policy);
  if (!policy) {
    return complain(policy.error());
  }
  if ((*policy)->plan == nullptr) {
    return complain({ErrorCode::kInvalidInput,
                     fmt::format("--policy: {} decides as the program runs and has no plan; "
                                 "planning policies are autovm, flashneuron, g10_gds, g10_host and "
                                 "g10",
                                 options.policy)});
  }
  const Result<Machine> machine = configured_machine(options.machine, options.settings);
  if (!machine) {
    return complain(machine.error());
  }
  const Result<Trace> trace = read_trace(options.trace);
  if (!trace) {
    return complain(trace.error());
  }
  const Result<Plan> plan = (*policy)->plan(*trace, *machine, options.planner);
  if (!plan) {
    return complain({plan.error().code, fmt::format("{}: {}: {}", options.trace, options.policy,
                                                    plan.error().message)});
  }
  if (options.as == "torch") {
    const Result<std::string> script =
        render_torch_plan(*plan, *trace,
                          {.policy = options.policy,
                           .machine = options.machine,
                           .device_bytes = machine->device.capacity_bytes});
    if (!script) {
      return complain(
          {script.error().code, fmt::format("{}: {}", options.trace, script.error().message)});
    }
    fmt::print("{}", *script);
  } else if (options.json) {
    print_json(*plan, *trace);
  } else {
    print_program(*plan, *trace, options);
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Print a trace's kernels with the transfers that a policy plans between them");
  command->footer(
      "Between the kernels of the trace stand the calls that the policy inserts (figure 9\n"
      "of the G10 paper):\n"
      "  alloc(&tensor, bytes)              a tensor gets memory\n"
      "  free(tensor)                       its contents are dead\n"
      "  pre_evict(tensor, bytes, tier)     copy it down; its memory may be reclaimed\n"
      "  prefetch(tensor, bytes)            bring it back\n\n"
      "With --as torch the output is a file of Python. The script that was recorded imports it\n"
      "and calls attach(optimizer); then the file carries the calls out in each step.\n\n"
      "Examples:\n"
      "  spillway trace generate transformer -o step.swt\n"
      "  spillway plan --policy g10 --set device.capacity=4GiB step.swt\n"
      "  spillway record --device host -o step.swt -- python train.py\n"
      "  spillway plan --as torch --set device.capacity=1GiB step.swt > plan.py\n"
      "  spillway run --device-memory 1GiB --policy base_uvm -- python train_with_plan.py");
  command->add_option("TRACE", options->trace, "A trace (.swt, or kernel-trace/1 as .json[.gz])")
      ->required();
  command
      ->add_option("--policy", options->policy,
                   "Which policy plans: g10, g10_host, g10_gds, flashneuron, autovm")
      ->type_name("P")
      ->capture_default_str();
  command->add_option("--machine", options->machine, "A built-in machine or a machine file")
      ->type_name("M")
      ->capture_default_str();
  command->add_option("--set", options->settings, "Set a field of the machine")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--profiling-error", options->planner.profiling_error,
                   "Plan from kernel times that are wrong by up to this fraction")
      ->type_name("X");
  CLI::Option* const as =
      command
          ->add_option("--as", options->as,
                       "program: text for people; torch: Python that a PyTorch script imports")
          ->type_name("program|torch")
          ->capture_default_str()
          ->check(CLI::IsMember({"program", "torch"}));
  command->add_flag("--json", options->json, "One JSON object for each call that is inserted")
      ->excludes(as);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace spillway
