// See torch_plan.h.
#include "cli/simulate/torch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace spillway {
namespace {

constexpr std::string_view kBeginning =
    "from spillway.instrumented import Program\n"
    "\n"
    "program = Program(__file__, device_bytes={})\n"
    "attach, detach = program.attach, program.detach\n"
    "tensor, alloc, free = program.tensor, program.alloc, program.free\n"
    "prefetch, pre_evict, kernel = program.prefetch, program.pre_evict, program.kernel\n";

// `record --without-gpu` names a step of an operator by what it does, in one word or several, of
// which these are the first.
constexpr std::array<std::string_view, 10> kSteps{"arange",    "copy",     "fill",       "index",
                                                  "memset",    "pad",      "radix_sort", "slice",
                                                  "transform", "workspace"};

constexpr std::array<std::string_view, 7> kProducts{"aten::mm",      "aten::addmm", "aten::bmm",
                                                    "aten::baddbmm", "aten::mv",    "aten::addmv",
                                                    "aten::dot"};

std::string_view first_word(std::string_view name) { return name.substr(0, name.find(' ')); }

template <typename Values, typename Value>
bool is_one_of(const Values& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Two names of letters, digits and _, as in aten::mm, or a step of such a one. Behind a space may
// stand which of its kernels it is.
bool is_operator(std::string_view name) {
  name = first_word(name);
  if (is_one_of(kSteps, name)) {
    return true;
  }
  const auto is_word = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_';
    });
  };
  const std::size_t colons = name.find("::");
  return colons != std::string_view::npos && is_word(name.substr(0, colons)) &&
         is_word(name.substr(colons + 2));
}

// A literal of JSON is one of Python.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Which tensors are workspaces of cuBLAS: they are persistent, and each kernel that uses one is a
// product or the fill before it, and both reads and writes it. PyTorch's operators do not name
// workspaces, so none could be matched.
std::vector<bool> workspaces_of(const Trace& trace) {
  std::vector<bool> found(trace.tensors.size());
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    found[id] = trace.tensors[id].persistent;
  }
  std::vector<bool> used(trace.tensors.size());
  for (const Kernel& kernel : trace.kernels) {
    const bool may = kernel.name == "memset" || is_one_of(kProducts, first_word(kernel.name));
    for (const auto* const ids : {&kernel.reads, &kernel.writes}) {
      for (const TensorId id : *ids) {
        used[id] = true;
        found[id] = found[id] && may && is_one_of(kernel.reads, id) && is_one_of(kernel.writes, id);
      }
    }
  }
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    found[id] = found[id] && used[id];
  }
  return found;
}

class Script {
 public:
  Script(const Plan& plan, const Trace& trace)
      : plan_(plan), trace_(trace), workspaces_(workspaces_of(trace)) {
    named_.resize(trace.tensors.size());
  }

  std::string render(const TorchPlanSource& source) {
    fmt::format_to(out(), kBeginning, source.device_bytes);
    text_ += "\n# What lives on from one iteration to the next.\n";
    for (TensorId id = 0; id < trace_.tensors.size(); ++id) {
      if (trace_.tensors[id].persistent && !workspaces_[id]) {
        name(id, "tensor");
      }
    }
    text_ += "\n# An iteration: from behind a step of the optimizer to the end of the next one.\n";
    for (KernelIndex index = 0; index < trace_.kernels.size(); ++index) {
      for (const PlanAction& action : plan_.before[index]) {
        call(action);
      }
      launch(index);
    }
    text_ += freed_after_;
    return std::move(text_);
  }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }

  // Once: a plan may allocate ahead, and what it never allocates is there when a kernel uses it.
  void name(TensorId id, std::string_view how) {
    if (!named_[id]) {
      named_[id] = true;
      fmt::format_to(out(), "tensor{} = {}({}, {})\n", id, how, id, trace_.tensors[id].bytes);
    }
  }

  void call(const PlanAction& action) {
    const Bytes bytes = trace_.tensors[action.tensor].bytes;
    const std::string_view comment = workspaces_[action.tensor] ? "# a library's workspace, stays: "
                                     : bytes < kLeastTorchPlanBytes ? "# below 1 MiB, stays: "
                                                                    : std::string_view();
    switch (action.step) {
      case PlanStep::kAlloc:
        name(action.tensor, "alloc");
        break;
      case PlanStep::kFree:
        fmt::format_to(std::back_inserter(named_[action.tensor] ? text_ : freed_after_),
                       "free(tensor{})\n", action.tensor);
        break;
      case PlanStep::kPrefetch:
        fmt::format_to(out(), "{}prefetch(tensor{}, {})\n", comment, action.tensor, bytes);
        break;
      case PlanStep::kPreEvict:
        fmt::format_to(out(), "{}pre_evict(tensor{}, {}, \"{}\")\n", comment, action.tensor, bytes,
                       name_of(action.to));
        break;
    }
  }

  void launch(KernelIndex index) {
    const Kernel& kernel = trace_.kernels[index];
    const std::string reads = operands(kernel.reads);
    const std::string writes = operands(kernel.writes);
    fmt::format_to(out(), "kernel({}, {}", index, quoted(kernel.name));
    if (!reads.empty()) {
      fmt::format_to(out(), ", reads=[{}]", reads);
    }
    if (!writes.empty()) {
      fmt::format_to(out(), ", writes=[{}]", writes);
    }
    fmt::format_to(out(), ")  # {}\n", format_time(kernel.duration_ns));
  }

  // Names them first, where they have no name yet.
  std::string operands(const std::vector<TensorId>& ids) {
    std::string list;
    for (const TensorId id : ids) {
      if (!workspaces_[id]) {
        name(id, "alloc");
        fmt::format_to(std::back_inserter(list), "{}tensor{}", list.empty() ? "" : ", ", id);
      }
    }
    return list;
  }

  const Plan& plan_;
  const Trace& trace_;
  std::string text_;
  std::string freed_after_;  // what dies with the last kernel, which a plan says before the first
  std::vector<bool> workspaces_;  // by tensor
  std::vector<bool> named_;       // likewise
};

std::string opening(const Plan& plan, const Trace& trace, const TorchPlanSource& source) {
  return fmt::format(
      "# {} {} under {} on {} with {} of device memory: an iteration of {} expected.\n"
      "# Pre-evicted in an iteration: {} to host, {} to storage{}.\n"
      "# Written by `spillway plan --as torch`. A script takes it up by two lines, under\n"
      "# `spillway run --policy base_uvm`:\n"
      "#     import plan\n"
      "#     plan.attach(optimizer)\n",
      trace.model, trace.batch_size, source.policy, source.machine,
      format_bytes(source.device_bytes), format_time(plan.estimated_ns),
      format_bytes(plan.to_host_bytes), format_bytes(plan.to_storage_bytes),
      plan.fits ? "" : "; some kernels need more than that frees, and will evict more");
}

}  // namespace

Result<std::string> render_torch_plan(const Plan& plan, const Trace& trace,
                                      const TorchPlanSource& source) {
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    const Kernel& kernel = trace.kernels[index];
    if (!(kernel.reads.empty() && kernel.writes.empty()) && !is_operator(kernel.name)) {
      return make_error(ErrorCode::kInvalidInput,
                        "--as torch: kernel {}, {}, is no operator of PyTorch; record the script "
                        "with `spillway record --device host` or `spillway record --without-gpu`",
                        index, quoted(kernel.name));
    }
  }
  return opening(plan, trace, source) + Script(plan, trace).render(source);
}

}  // namespace spillway
