// See launch_positions.h.
#include "policy/launch_positions.h"

namespace spillway {

LaunchHash LaunchPositions::next(std::string_view name, bool step) {
  // In place or not is one operator: autograd's additions differ in that while a mode watches.
  if (name.starts_with("aten::") && name.ends_with('_')) {
    name.remove_suffix(1);
  }
  bool begins = iterations_.next(hash_launch(name, {}).first);
  if (step) {
    iterations_.begins();
    begins = true;
  }
  if (begins) {
    counts_.clear();
  }
  auto found = counts_.find(name);
  if (found == counts_.end()) {
    found = counts_.emplace(std::string(name), 0).first;
  }
  const LaunchOperand position{.allocation = found->second++, .bytes = 0};
  return hash_launch(name, {&position, 1});
}

}  // namespace spillway
