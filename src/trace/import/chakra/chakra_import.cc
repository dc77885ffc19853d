// Operators of a Chakra trace as kernels, storages as tensors. Layer: trace.
//
// Operators are nested. One whose inputs and outputs are all used by the kernels inside of it is
// composed of them; one that only gives another view of its inputs, or only allocates, computes
// nothing. What is left is the kernels, in the order in which they ended.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "trace/import/assembler.h"
#include "trace/import/chakra/chakra_file.h"
#include "trace/import/chakra/chakra_operands.h"
#include "trace/import/chakra/chakra_tree.h"
#include "trace/import/importers.h"
#include "trace/import/storage_lives.h"

namespace spillway {
namespace {

using StorageSet = std::unordered_set<std::uint64_t>;

bool has_all(const StorageSet& all, const Storages& some) {
  return std::all_of(some.begin(), some.end(),
                     [&](const std::uint64_t storage) { return all.contains(storage); });
}

// The smaller into the larger, so that no storage moves often.
void merge(StorageSet& into, StorageSet& more) {
  if (into.size() < more.size()) {
    std::swap(into, more);
  }
  into.insert(more.begin(), more.end());
}

bool only_allocates(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

// Takes only shape and type from its input.
bool reads_no_contents(std::string_view name) {
  return name.ends_with("_like") || name.starts_with("aten::new_");
}

class ChakraImport {
 public:
  ChakraImport(const ChakraFile& file, const ChakraTree& tree, const OperatorTimes* times)
      : file_(file), tree_(tree), times_(times), operands_(file), lives_(assembler_) {}

  Result<Imported> run(const IterationRange& range) {
    const std::vector<std::uint32_t> operators = tree_.operators(file_, range);
    operands_.choose_device(operators);
    for (const std::uint32_t node : operators) {
      if (const Status status = add(node); !status) {
        return make_error(status.error().code, "nodes: the one with id {}: {}",
                          file_.nodes[node].id, status.error().message);
      }
    }
    if (times_ != nullptr && timed_ == 0) {
      return make_error(ErrorCode::kInvalidInput,
                        "no operator of the iteration has a time in the Kineto trace; is it of the "
                        "same run?");
    }
    Result<Trace> trace = assembler_.finish(times_ != nullptr ? times_->device : "");
    if (!trace) {
      return tl::unexpected(trace.error());
    }
    return Imported{std::move(*trace), ImportFormat::kChakra, range.name, notes()};
  }

 private:
  // The kernels inside an operator.
  struct Inside {
    StorageSet touched;
    StorageSet written;
    TimeNs ns = 0;
    bool any = false;
  };

  Status add(std::uint32_t node) {
    const std::string& name = file_.names[file_.nodes[node].name];
    UsedStorages operands = operands_.of(node);
    Inside inside = std::exchange(inside_[node], {});
    inside_.erase(node);
    const Result<OperatorTime> time = time_of(node, name);
    if (!time) {
      return tl::unexpected(time.error());
    }
    if (Status status = note_storages(node, operands.inputs); !status) {
      return status;
    }
    const bool views = !operands.changes && !operands.outputs.empty() &&
                       std::includes(operands.inputs.begin(), operands.inputs.end(),
                                     operands.outputs.begin(), operands.outputs.end());
    if (reads_no_contents(name)) {
      operands.inputs.clear();
    }
    const bool composed = inside.any && has_all(inside.touched, operands.inputs) &&
                          has_all(inside.written, operands.outputs);
    const bool uses_none = operands.inputs.empty() && operands.outputs.empty();
    if (time->device_ns > 0 || (!uses_none && !views && !composed && !only_allocates(name))) {
      if (Status status = add_kernel(node, operands, *time, inside); !status) {
        return status;
      }
    }
    made_.erase(node);
    pass_on(node, std::move(inside));
    return {};
  }

  // Sizes of inputs, and births of outputs that are not inputs.
  Status note_storages(std::uint32_t node, const Storages& inputs) {
    Status status;
    operands_.for_each_use(node, [&](const ChakraUse& use, bool input) {
      if (!status) {
        return;
      }
      input = input || std::binary_search(inputs.begin(), inputs.end(), use.storage);
      const std::uint32_t maker = input ? maker_around(node, use.storage) : node;
      status = maker == ChakraTree::kNone ? lives_.is_used(use.storage, use.bytes)
                                          : lives_.is_born(use.storage, use.bytes, maker);
    });
    return status;
  }

  // The nearest operator around `node` that returns the storage without taking it: what it
  // allocates itself appears first as an input of an operator inside of it, as in mm's filling of
  // its result.
  std::uint32_t maker_around(std::uint32_t node, std::uint64_t storage) {
    for (std::uint32_t around = tree_.operator_around(file_, node); around != ChakraTree::kNone;
         around = tree_.operator_around(file_, around)) {
      const auto [made, is_new] = made_.try_emplace(around);
      if (is_new) {
        const UsedStorages operands = operands_.of(around);
        std::set_difference(operands.outputs.begin(), operands.outputs.end(),
                            operands.inputs.begin(), operands.inputs.end(),
                            std::back_inserter(made->second));
      }
      if (std::binary_search(made->second.begin(), made->second.end(), storage)) {
        return around;
      }
    }
    return ChakraTree::kNone;
  }

  Status add_kernel(std::uint32_t node, const UsedStorages& operands, const OperatorTime& time,
                    Inside& inside) {
    ImportedKernel kernel;
    kernel.name = plain_name(file_.names[file_.nodes[node].name]);
    kernel.synchronizes = !operands_.on_host() && kernel.name == "aten::_local_scalar_dense";
    for (const std::uint64_t storage : operands.inputs) {
      const TensorId id = lives_.now(storage);
      // What is changed first of all is filled: it had nothing to read.
      if (!assembler_.is_new(id) ||
          !std::binary_search(operands.outputs.begin(), operands.outputs.end(), storage)) {
        kernel.reads.push_back(id);
      }
    }
    for (const std::uint64_t storage : operands.outputs) {
      kernel.writes.push_back(lives_.now(storage));
    }
    kernel.duration_ns = times_ == nullptr          ? kUnknownDurationNs
                         : times_->on_device        ? time.device_ns
                         : time.host_ns > inside.ns ? time.host_ns - inside.ns
                                                    : 1;
    inside.ns += kernel.duration_ns;
    inside.any = true;
    inside.touched.insert(operands.inputs.begin(), operands.inputs.end());
    inside.touched.insert(operands.outputs.begin(), operands.outputs.end());
    inside.written.insert(operands.outputs.begin(), operands.outputs.end());
    timed_ += time.name.empty() ? 0U : 1U;
    untimed_ += time.name.empty() ? 1U : 0U;
    return assembler_.kernel(std::move(kernel));
  }

  void pass_on(std::uint32_t node, Inside inside) {
    const std::uint32_t around = tree_.operator_around(file_, node);
    if (around == ChakraTree::kNone || !inside.any) {
      return;
    }
    Inside& outer = inside_[around];
    merge(outer.touched, inside.touched);
    merge(outer.written, inside.written);
    outer.ns += inside.ns;
    outer.any = true;
  }

  // No name where the Kineto trace has not seen it.
  Result<OperatorTime> time_of(std::uint32_t node, const std::string& name) const {
    const std::uint64_t rf_id = file_.nodes[node].rf_id;
    if (times_ == nullptr || rf_id == 0) {
      return OperatorTime{};
    }
    const auto time = times_->by_rf_id.find(rf_id);
    if (time == times_->by_rf_id.end()) {
      return OperatorTime{};
    }
    if (time->second.name != plain_name(name)) {
      return make_error(ErrorCode::kInvalidInput,
                        "{} with rf_id {}; in the Kineto trace that is {}: not the same run",
                        plain_name(name), rf_id, time->second.name);
    }
    return time->second;
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes{
        "Frees are not in the file: a tensor lives from its first to its last use, so memory that "
        "is "
        "held longer is missing from the peak.",
        "Ids of storages come back for others: one that an operator returns without taking it is a "
        "new tensor; one that appears in another way is taken for the old one.",
        "What is read before anything in the iteration made it counts as persistent: parameters, "
        "optimizer state, but also inputs.",
        "A tensor is as large as the part of it that operators see; workspaces inside operators "
        "are "
        "missing."};
    if (times_ == nullptr) {
      notes.emplace_back(
          "Times are not in the file: each kernel counts 1 us. A Kineto trace of the "
          "same run has them (--with).");
    } else if (untimed_ > 0) {
      notes.push_back(fmt::format("{} of {} kernels have no time in the Kineto trace.", untimed_,
                                  timed_ + untimed_));
    }
    if (!operands_.on_host()) {
      notes.push_back(
          fmt::format("Only tensors on {} are in the trace.", plain_name(operands_.device())));
    }
    return notes;
  }

  const ChakraFile& file_;
  const ChakraTree& tree_;
  const OperatorTimes* times_;
  ChakraOperands operands_;
  TraceAssembler assembler_;
  StorageLives lives_;
  std::unordered_map<std::uint32_t, Inside> inside_;  // by operator that has not ended
  std::unordered_map<std::uint32_t, Storages> made_;  // likewise, what it returns and does not take
  std::uint64_t timed_ = 0;
  std::uint64_t untimed_ = 0;
};

}  // namespace

Result<Imported> import_chakra(ByteSource& text, const OperatorTimes* times,
                               const ImportOptions& options) {
  const Result<ChakraFile> file = read_chakra(text);
  if (!file) {
    return tl::unexpected(file.error());
  }
  const Result<ChakraTree> tree = ChakraTree::of(*file);
  if (!tree) {
    return tl::unexpected(tree.error());
  }
  const Result<IterationRange> range = choose_iteration(*file, *tree, options.iteration);
  if (!range) {
    return tl::unexpected(range.error());
  }
  return ChakraImport(*file, *tree, times).run(*range);
}

}  // namespace spillway
