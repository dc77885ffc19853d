// Kineto's operators or kernels, its memory events and sizes, as a trace. Layer: trace.
//
// With kernels of a device in the file these are the kernels, in the order in which the host
// started them; without, the outermost operators are. Memory follows allocations and frees
// (held_blocks.h), reads are guessed by size (sized_operands.h).
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "trace/import/assembler.h"
#include "trace/import/held_blocks.h"
#include "trace/import/importers.h"
#include "trace/import/iteration_choice.h"
#include "trace/import/kineto/kineto_file.h"
#include "trace/import/kineto/kineto_nesting.h"
#include "trace/import/sized_operands.h"
#include "trace/limits.h"

namespace spillway {
namespace {

struct Started {
  TimedKernel timed;
  std::uint32_t op = KinetoPlace::kNone;
};

bool is_begun_earlier(const Started& a, const Started& b) { return a.timed.begin < b.timed.begin; }

class KinetoImport {
 public:
  explicit KinetoImport(const KinetoFile& file)
      : file_(file), places_(places_of(file)), on_device_(!file.work.empty()) {
    std::unordered_map<std::int64_t, std::uint64_t> works;
    for (const KinetoWork& work : file.work) {
      const auto device = static_cast<std::int64_t>(work.device);
      if (++works[device] > works[device_]) {
        device_ = device;
      }
    }
  }

  Result<Imported> run(const ImportOptions& options) {
    const Result<IterationRange> range = choose(options.iteration);
    if (!range) {
      return tl::unexpected(range.error());
    }
    std::vector<Started> started = on_device_ ? device_work(*range) : outermost_operators(*range);
    std::stable_sort(started.begin(), started.end(), is_begun_earlier);
    std::vector<HeldBlock> blocks = blocks_of(memory_events());
    SizedOperands operands(file_, places_, blocks, assembler_);
    std::vector<TimedKernel> kernels;
    std::uint64_t accesses = 0;
    if (Status status = make_tensors(blocks, *range, assembler_); !status) {
      return tl::unexpected(status.error());
    }
    for (Started& one : started) {
      if (one.op != KinetoPlace::kNone) {
        Result<std::vector<TensorId>> reads = operands.read_by(one.op);
        if (!reads) {
          return tl::unexpected(reads.error());
        }
        accesses += reads->size();  // many kernels may belong to one operator
        if (accesses > kMaxAccesses) {
          return make_error(ErrorCode::kInvalidInput, "more than {} reads in an iteration",
                            kMaxAccesses);
        }
        one.timed.kernel.reads = std::move(*reads);
      }
      kernels.push_back(std::move(one.timed));
    }
    hold_blocks(blocks, *range, kernels);
    for (TimedKernel& timed : kernels) {
      if (Status status = assembler_.kernel(std::move(timed.kernel)); !status) {
        return tl::unexpected(status.error());
      }
    }
    return finish(*range, blocks, operands.older_bytes());
  }

 private:
  Result<IterationRange> choose(std::optional<std::uint64_t> wanted) const {
    IterationChoice choice;
    for (const KinetoOperator& op : file_.operators) {
      if (!op.annotation) {
        continue;
      }
      if (Status status = choice.annotation(file_.names[op.name], op.begin_ns, op.end_ns);
          !status) {
        return tl::unexpected(status.error());
      }
    }
    return choice.choose(wanted);
  }

  std::vector<Started> outermost_operators(const IterationRange& range) const {
    std::vector<Started> started;
    for (std::uint32_t i = 0; i < file_.operators.size(); ++i) {
      const KinetoOperator& op = file_.operators[i];
      if (places_[i].outermost == i && range.contains(op.begin_ns)) {
        started.push_back({{op.begin_ns,
                            op.end_ns,
                            {.name = plain_name(file_.names[op.name]),
                             .duration_ns = static_cast<TimeNs>(op.end_ns - op.begin_ns),
                             .reads = {},
                             .writes = {}}},
                           i});
      }
    }
    return started;
  }

  // In the order of the host's calls: only so is memory allocated before what uses it.
  std::vector<Started> device_work(const IterationRange& range) const {
    std::unordered_map<std::uint64_t, std::uint32_t> by_external_id;
    for (std::uint32_t i = 0; i < file_.operators.size(); ++i) {
      if (file_.operators[i].external_id != 0) {
        by_external_id[file_.operators[i].external_id] = i;
      }
    }
    std::vector<Started> started;
    for (const KinetoWork& work : file_.work) {
      if (static_cast<std::int64_t>(work.device) != device_) {
        continue;
      }
      const auto op = by_external_id.find(work.external_id);
      const auto call = file_.calls_ns.find(work.correlation);
      const std::uint64_t at_ns = call != file_.calls_ns.end() ? call->second
                                  : op != by_external_id.end()
                                      ? file_.operators[op->second].begin_ns
                                      : work.begin_ns;
      if (range.contains(at_ns)) {
        started.push_back({{at_ns,
                            at_ns,
                            {.name = plain_name(file_.names[work.name]),
                             .duration_ns = static_cast<TimeNs>(work.end_ns - work.begin_ns),
                             .reads = {},
                             .writes = {}}},
                           op != by_external_id.end() ? op->second : KinetoPlace::kNone});
      }
    }
    return started;
  }

  [[nodiscard]] bool counts(const KinetoMemory& memory) const {
    return memory.device == (on_device_ ? device_ : -1) && memory.bytes != 0;
  }

  std::vector<BlockEvent> memory_events() const {
    std::vector<BlockEvent> events;
    for (const KinetoMemory& memory : file_.memory) {
      if (counts(memory)) {
        const bool freed = memory.bytes < 0;
        events.push_back({memory.at_ns, memory.address,
                          static_cast<Bytes>(freed ? -memory.bytes : memory.bytes), freed});
      }
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const BlockEvent& a, const BlockEvent& b) { return a.at < b.at; });
    return events;
  }

  // What the allocator of a device had at the beginning of the iteration.
  std::optional<Bytes> allocated_before(const IterationRange& range) const {
    const KinetoMemory* first = nullptr;
    for (const KinetoMemory& memory : file_.memory) {
      if (counts(memory) && range.contains(memory.at_ns) &&
          (first == nullptr || memory.at_ns < first->at_ns)) {
        first = &memory;
      }
    }
    if (!on_device_ || first == nullptr || first->allocated_bytes == 0) {
      return std::nullopt;
    }
    const Bytes bytes = first->allocated_bytes;
    return first->bytes < 0 ? bytes + static_cast<Bytes>(-first->bytes)
                            : bytes - std::min(bytes, static_cast<Bytes>(first->bytes));
  }

  Result<Imported> finish(const IterationRange& range, const std::vector<HeldBlock>& blocks,
                          Bytes older_bytes) {
    std::vector<std::string> notes{
        "Which tensors operators use is not in the file: reads are guessed by size, and every "
        "block "
        "counts as written where it is allocated and as read before it is freed.",
        "Parameters and other memory from before the profile are known only as inputs of a size; "
        "those of one size may be counted too seldom or too often."};
    if (file_.memory.empty()) {
      notes.emplace_back(
          "No memory events: record with profile_memory=True, or nothing but inputs "
          "is known.");
    }
    if (file_.inputs.empty()) {
      notes.emplace_back("No shapes: record with record_shapes=True, or no reads are known.");
    }
    if (on_device_) {
      notes.emplace_back(
          "Kernels are in the order in which the host started them, one after the "
          "other: streams that overlap and gaps are not in the trace.");
    } else {
      notes.emplace_back(
          "No kernels of a device: each outermost operator on the host is a kernel. "
          "\"Total Allocated\" drifts there, so memory from before is unknown.");
    }
    if (Status status = add_rest(range, blocks, older_bytes, notes); !status) {
      return tl::unexpected(status.error());
    }
    const auto device = file_.device_names.find(static_cast<std::uint64_t>(device_));
    Result<Trace> trace =
        assembler_.finish(on_device_ && device != file_.device_names.end() ? device->second : "");
    if (!trace) {
      return tl::unexpected(trace.error());
    }
    return Imported{std::move(*trace), ImportFormat::kKineto, range.name, std::move(notes)};
  }

  // Persistent memory that no operator's input showed, so that the peak is the allocator's.
  Status add_rest(const IterationRange& range, const std::vector<HeldBlock>& blocks,
                  Bytes older_bytes, std::vector<std::string>& notes) {
    const auto before = allocated_before(range);
    if (!before) {
      return {};
    }
    Bytes known = older_bytes;
    for (const HeldBlock& block : blocks) {
      known += block.tensor != HeldBlock::kNoTensor && is_older(block, range) ? block.bytes : 0;
    }
    if (known > *before) {
      notes.push_back(
          fmt::format("What seems older than the iteration comes to {}, but the "
                      "allocator had {}: some inputs are counted twice.",
                      format_bytes(known), format_bytes(*before)));
    } else if (known < *before) {
      notes.push_back(
          fmt::format("{} of the {} that the allocator had before are in the trace as "
                      "one persistent tensor that no kernel uses.",
                      format_bytes(*before - known), format_bytes(*before)));
      return assembler_.tensor(*before - known, true).map([](TensorId) {});
    }
    return {};
  }

  const KinetoFile& file_;
  const std::vector<KinetoPlace> places_;
  const bool on_device_;
  std::int64_t device_ = 0;
  TraceAssembler assembler_;
};

}  // namespace

Result<Imported> import_kineto(ByteSource& text, const ImportOptions& options) {
  const Result<KinetoFile> file = read_kineto(text);
  if (!file) {
    return tl::unexpected(file.error());
  }
  return KinetoImport(*file).run(options);
}

Result<OperatorTimes> read_operator_times(ByteSource& text) {
  const Result<KinetoFile> file = read_kineto(text);
  if (!file) {
    return tl::unexpected(file.error());
  }
  OperatorTimes times;
  times.on_device = !file->work.empty();
  std::unordered_map<std::uint64_t, std::uint64_t> rf_ids;  // by external id
  for (const KinetoOperator& op : file->operators) {
    if (op.rf_id != 0) {
      times.by_rf_id[op.rf_id] = {plain_name(file->names[op.name]),
                                  static_cast<TimeNs>(op.end_ns - op.begin_ns), 0};
      rf_ids[op.external_id] = op.rf_id;
    }
  }
  if (times.by_rf_id.empty()) {
    return make_error(ErrorCode::kInvalidInput,
                      "no operator has a \"Record function id\": the profiler writes it only "
                      "while the observer runs (profile(execution_trace_observer=...))");
  }
  for (const KinetoWork& work : file->work) {
    if (const auto rf_id = rf_ids.find(work.external_id); rf_id != rf_ids.end()) {
      TimeNs& ns = times.by_rf_id[rf_id->second].device_ns;
      ns = std::min(ns + static_cast<TimeNs>(work.end_ns - work.begin_ns), kMaxDurationNs);
    }
  }
  if (!file->device_names.empty() && times.on_device) {
    times.device = file->device_names.begin()->second;
  }
  return times;
}

}  // namespace spillway
