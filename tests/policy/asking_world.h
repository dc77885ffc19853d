// A world (engine_world.h) whose engine asks one of our policies instead of a script.
#pragma once

#include "engine/engine_world.h"

namespace spillway {

// What leaves a second time unchanged needs no copy.
inline EngineOptions keeping_clean_copies(std::uint64_t device, std::uint64_t host) {
  EngineOptions options = one_at_a_time(device, host, 0);
  options.clean_copies = CleanCopies::kAll;
  return options;
}

class AskingWorld : public spillway::World {
 public:
  // What leaves goes to host memory, whatever the policy says.
  AskingWorld(const EngineOptions& options, Policy& asked) : spillway::World(options) {
    policy.gives_up = asked.recomputes();
    policy.admitted_at_once = asked.window();
    policy.at_issue = [this, &asked](const Launch& launch, Control& control) {
      seen = &control;
      asked.on_issue(launch, control);
    };
    policy.at_launch = [&asked](const Launch& launch, Control& control) {
      asked.on_launch(launch, control);
    };
    policy.at_launch_end = [&asked](const Launch& launch, Control& control) {
      asked.on_launch_end(launch, control);
    };
    policy.at_death_said = [&asked](AllocationId id) { asked.on_death_said(id); };
    policy.at_give_up = [&asked](AllocationId id) { asked.on_give_up(id); };
    policy.victim = [this, &asked](Cause cause) {
      return asked.select_victim(cause, policy.room_for, *seen);
    };
  }
  // Since they were forgotten.
  long blocks_that_came() {
    const std::vector<std::string> done = calls();
    return std::count_if(done.begin(), done.end(), [](const std::string& call) {
      return call.find("host>device") != std::string::npos;
    });
  }

  Control* seen = nullptr;  // once a launch has been issued
};

}  // namespace spillway
