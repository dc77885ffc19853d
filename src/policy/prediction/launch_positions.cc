// See launch_positions.h.
#include "policy/prediction/launch_positions.h"

namespace spillway {

LaunchHash LaunchPositions::next(std::string_view name, bool step) {
  // In place or not is one operator: autograd's additions differ in that while a mode watches.
  if (name.starts_with("aten::") && name.ends_with('_')) {
    name.remove_suffix(1);
  }
  const bool begins = iterations_.next(hash_launch(name, {}).first) && !step;
  if (step) {
    iterations_.begins();
  }
  found_after_ = begins ? launches_ : 0;
  if (begins || step) {
    counts_.clear();
    launches_ = 0;
  }
  ++launches_;
  auto found = counts_.find(name);
  if (found == counts_.end()) {
    found = counts_.emplace(std::string(name), 0).first;
  }
  const LaunchOperand position{.allocation = found->second++, .bytes = 0};
  return hash_launch(name, {&position, 1});
}

}  // namespace spillway
