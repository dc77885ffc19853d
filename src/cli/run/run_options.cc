// See run_options.h.
#include "cli/run/run_options.h"

#include "cli/complain.h"
#include "cli/policy_list.h"
#include "platform/common/process/say.h"

namespace spillway {

void add_space_options(CLI::App& command, RunOptions& options) {
  constexpr const char* kMemory = "Memory";
  constexpr const char* kPolicy = "What moves when";
  constexpr const char* kStandIn = "Standing in for another machine";
  command
      .add_option("--device", options.device,
                  "The device, whose memory is limited: cuda, an NVIDIA GPU; host, this machine's "
                  "own memory; auto, a GPU if there is one")
      ->type_name("NAME")
      ->group(kMemory)
      ->capture_default_str();
  command
      .add_option("--device-memory", options.device_memory,
                  "Memory of the device that the program, and each process that it starts, may use "
                  "(nine tenths of what is free on a GPU, three quarters of what is available on "
                  "the host)")
      ->type_name("SIZE")
      ->group(kMemory);
  command
      .add_option("--host-memory", options.host_memory,
                  "Host memory for data that does not fit in device memory; with a GPU it is "
                  "pinned as it is used (at most half of what is available)")
      ->type_name("SIZE")
      ->group(kMemory);
  command
      .add_option(
          "--storage", options.storage,
          "Where data goes that does not fit in host memory either: a folder, a new file such as "
          "/mnt/a.swap, or a block device, whose contents are destroyed (none)")
      ->type_name("PATH[:SIZE]")
      ->group(kMemory);
  command
      .add_option("--policy", options.policy,
                  "The policy, which decides what moves when: one of the list below (lookahead on "
                  "a GPU, deepum on the host)")
      ->type_name("NAME")
      ->group(kPolicy);
  command
      .add_option("--prefetch-degree", options.prefetch_degree,
                  "For how many launches ahead the policies deepum and deepum_plus prefetch, at "
                  "most (on the host 64, on a GPU their own)")
      ->type_name("N")
      ->group(kPolicy);
  command
      .add_option(
          "--link-bandwidth", options.link_bandwidth,
          "Slow the link between device and host memory down to so many bytes a second each way, "
          "to try what the program would take on another machine: 15.8GB is PCIe 3 x16 (as fast "
          "as it is). On a GPU this holds for Spillway's copies, not for the program's own")
      ->type_name("SIZE")
      ->group(kStandIn);
  command
      .add_option("--fault-latency", options.fault_latency,
                  "With --device host: how long each page fault takes before data begins to move, "
                  "e.g. 50us (none)")
      ->type_name("TIME")
      ->group(kStandIn);
  command
      .add_option("--threshold", options.threshold,
                  "With --device host: allocations of at least this size are limited and moved; "
                  "smaller ones are left alone (1MiB)")
      ->type_name("SIZE")
      ->group(kMemory);
}

void add_program(CLI::App& command, RunOptions& options) {
  command.add_option("program", options.command, "The program and its arguments, after --")
      ->type_name("");
  command.positionals_at_end();
}

std::string policy_footer() {
  return policy_list() +
         "Those that plan (autovm, flashneuron, g10...) watch the first training steps, then "
         "plan,\n"
         "and follow the plan in the steps after that.";
}

Status has_values(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_positional() && option->count() == 0) {
      return make_error(ErrorCode::kInvalidInput,
                        "no program: put it behind --, as in `spillway {} -- python train.py`",
                        command.get_name());
    }
    if (option->count() > 0 && !option->get_positional() && option->results().front().empty()) {
      return make_error(ErrorCode::kInvalidInput, "{}: its value is empty", option->get_name());
    }
  }
  return {};
}

int exit_status(const Result<int>& ended) {
  if (ended) {
    return *ended;
  }
  const int complained = complain(ended.error());
  return complained == 1 ? kOwnFailureStatus : complained;
}

}  // namespace spillway
