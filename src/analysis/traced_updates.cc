// See traced_updates.h.
#include "analysis/traced_updates.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>

namespace spillway {
namespace {

// The tensors that some kernel uses beside those that update many.
std::vector<bool> used_otherwise(const Trace& trace) {
  std::vector<bool> used(trace.tensors.size());
  for (const Kernel& kernel : trace.kernels) {
    if (updates_many(kernel.name)) {
      continue;
    }
    for (const std::vector<TensorId>* const list : {&kernel.reads, &kernel.writes}) {
      for (const TensorId id : *list) {
        used[id] = true;
      }
    }
  }
  return used;
}

struct Lists {
  std::vector<TensorId> parameters;
  std::vector<TensorId> gradients;
  std::vector<TensorId> states;  // first moments, then second ones
};

class Finder {
 public:
  explicit Finder(const Trace& trace) : trace_(trace), used_otherwise_(used_otherwise(trace)) {}

  // As long as they fit together; nullopt where they do not.
  [[nodiscard]] std::optional<Lists> lists_of(const Kernel& kernel) const {
    Lists lists;
    std::size_t next = 0;
    const auto take_while = [&](std::vector<TensorId>& list, const auto& belongs) {
      for (; next < kernel.reads.size() && belongs(kernel.reads[next]); ++next) {
        list.push_back(kernel.reads[next]);
      }
    };
    take_while(lists.parameters, [&](TensorId id) {
      return trace_.tensors[id].persistent && used_otherwise_[id] && writes(kernel, id);
    });
    take_while(lists.gradients, [&](TensorId id) { return !trace_.tensors[id].persistent; });
    std::size_t count = 0;
    while (count < std::min(lists.parameters.size(), lists.gradients.size()) &&
           bytes(lists.gradients[count]) == bytes(lists.parameters[count])) {
      ++count;
    }
    lists.parameters.resize(count);
    lists.gradients.resize(count);
    take_while(lists.states, [&](TensorId id) {
      return count > 0 && trace_.tensors[id].persistent && !used_otherwise_[id] &&
             writes(kernel, id) &&
             bytes(id) == bytes(lists.parameters[lists.states.size() % count]);
    });
    if (count == 0 || lists.states.size() < count) {
      return std::nullopt;
    }
    lists.states.resize(lists.states.size() / count * count);
    return lists;
  }

 private:
  [[nodiscard]] Bytes bytes(TensorId id) const { return trace_.tensors[id].bytes; }

  const Trace& trace_;
  std::vector<bool> used_otherwise_;
};

Bytes bytes_of(const Trace& trace, const TracedUpdate& update) {
  Bytes bytes = trace.tensors[update.parameter].bytes + trace.tensors[update.gradient].bytes;
  for (const TensorId id : update.states) {
    bytes += trace.tensors[id].bytes;
  }
  return bytes;
}

// Behind whatever has to be over before: who writes what it uses, and who reads what it writes.
// nullopt if nobody does, so that its gradient comes from outside.
std::optional<KernelIndex> ready_behind(const Trace& trace, const std::vector<bool>& replaced,
                                        const TracedUpdate& update) {
  for (KernelIndex index = update.kernel; index-- > 0;) {
    const Kernel& kernel = trace.kernels[index];
    const bool state_used =
        std::any_of(update.states.begin(), update.states.end(),
                    [&](TensorId id) { return reads(kernel, id) || writes(kernel, id); });
    if (!replaced[index] && (state_used || writes(kernel, update.gradient) ||
                             reads(kernel, update.parameter) || writes(kernel, update.parameter))) {
      return index;
    }
  }
  return std::nullopt;
}

}  // namespace

bool updates_many(std::string_view kernel_name) {
  constexpr std::array kNames{"multi_tensor_apply", "FusedAdam", "_fused_adam", "_fused_sgd",
                              "_fused_adagrad"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
    return kernel_name.find(name) != std::string_view::npos;
  });
}

TracedUpdates find_updates(const Trace& trace) {
  TracedUpdates found{.updates = {}, .replaced = std::vector<bool>(trace.kernels.size())};
  const Finder finder(trace);
  std::map<TensorId, std::size_t> by_parameter;  // a large one is spread over several kernels
  TimeNs all_ns = 0;
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    const Kernel& kernel = trace.kernels[index];
    const std::optional<Lists> lists =
        updates_many(kernel.name) ? finder.lists_of(kernel) : std::nullopt;
    if (!lists) {
      continue;
    }
    found.replaced[index] = true;
    all_ns += kernel.duration_ns;
    const std::size_t count = lists->parameters.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (!by_parameter.emplace(lists->parameters[i], found.updates.size()).second) {
        continue;
      }
      TracedUpdate& update = found.updates.emplace_back();
      update.parameter = lists->parameters[i];
      update.gradient = lists->gradients[i];
      update.kernel = index;
      for (std::size_t at = i; at < lists->states.size(); at += count) {
        update.states.push_back(lists->states[at]);
      }
    }
  }
  Bytes all_bytes = 0;
  for (TracedUpdate& update : found.updates) {
    all_bytes += bytes_of(trace, update);
    const std::optional<KernelIndex> behind = ready_behind(trace, found.replaced, update);
    update.ready_behind = behind.value_or(update.kernel - std::min(update.kernel, 1U));
  }
  for (TracedUpdate& update : found.updates) {
    const double part =
        static_cast<double>(bytes_of(trace, update)) / static_cast<double>(all_bytes);
    update.duration_ns = static_cast<TimeNs>(static_cast<double>(all_ns) * part);
  }
  return found;
}

}  // namespace spillway
