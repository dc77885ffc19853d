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
                  "Whose memory: cuda, an NVIDIA GPU's; host, this machine's own; auto, a GPU's "
                  "if there is one")
      ->type_name("NAME")
      ->group(kMemory)
      ->capture_default_str();
  command
      .add_option("--device-memory", options.device_memory,
                  "Fast memory that the program, and each process that it starts, may use (nine "
                  "tenths of what is free on a GPU, three quarters of what is available on the "
                  "host)")
      ->type_name("SIZE")
      ->group(kMemory);
  command
      .add_option("--host-memory", options.host_memory,
                  "Memory for what is moved out of it; pinned as it is used, on a GPU (half of "
                  "what is available)")
      ->type_name("SIZE")
      ->group(kMemory);
  command
      .add_option(
          "--storage", options.storage,
          "A folder, a new file such as /mnt/a.swap, or a block device to swap to when that is "
          "full (none)")
      ->type_name("PATH[:SIZE]")
      ->group(kMemory);
  command
      .add_option("--policy", options.policy,
                  "Who decides what moves when; see below (lookahead on a GPU, deepum on the host)")
      ->type_name("NAME")
      ->group(kPolicy);
  command
      .add_option("--prefetch-degree", options.prefetch_degree,
                  "DeepUM's N: for how many launches ahead to prefetch, at most (64)")
      ->type_name("N")
      ->group(kPolicy);
  command
      .add_option(
          "--link-bandwidth", options.link_bandwidth,
          "Bytes a second between fast and host memory, each way: lets this machine "
          "stand in for one with a slower link (as fast as it is). On a GPU copies are held "
          "back; what kernels read of host memory, and what the program copies itself, "
          "cannot be")
      ->type_name("SIZE")
      ->group(kStandIn);
  command
      .add_option("--fault-latency", options.fault_latency,
                  "Time before a faulted block begins to move, e.g. 50us (none)")
      ->type_name("TIME")
      ->group(kStandIn);
  command
      .add_option("--threshold", options.threshold,
                  "Allocations from this size on are Spillway's (1MiB)")
      ->type_name("SIZE")
      ->group(kStandIn);
}

void add_program(CLI::App& command, RunOptions& options) {
  command.add_option("program", options.command, "The program and its arguments, after --")
      ->type_name("");
  command.positionals_at_end();
}

std::string policy_footer() {
  return policy_list() +
         "Those that plan (flashneuron, g10...) watch the second training step, and follow "
         "their\nplan from the third on.";
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
