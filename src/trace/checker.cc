// The checks of a trace, each with the place where it fails. Layer: trace.
#include "trace/checker.h"

#include "trace/limits.h"

namespace spillway {
namespace {

// Number of bytes of the UTF-8 sequence that starts `text`, 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  // Overlong forms, surrogates and code points beyond U+10FFFF.
  if (length > 1) {
    const unsigned second = at(1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return 0;
    }
  }
  return length;
}

Status check_text(std::string_view place, std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: {} bytes long; at most {} are allowed", place,
                      text.size(), kMaxTextBytes);
  }
  if (!is_plain_text(text)) {
    return make_error(ErrorCode::kInvalidInput, "{}: not UTF-8 text without control characters",
                      place);
  }
  return {};
}

Status check_duration(std::size_t kernel, std::string_view field, TimeNs duration_ns,
                      TimeNs least_ns) {
  if (duration_ns < least_ns || duration_ns > kMaxDurationNs) {
    return make_error(ErrorCode::kInvalidInput, "kernels[{}].{}: {} ns; must be {} to {} ns",
                      kernel, field, duration_ns, least_ns, kMaxDurationNs);
  }
  return {};
}

}  // namespace

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

Status TraceChecker::header(const TraceHeader& header) const {
  return check_text("model", header.model)
      .and_then([&] { return check_text("device", header.device); })
      .and_then([&] { return check_text("dtype", header.dtype); });
}

Status TraceChecker::tensor(const Tensor& tensor, const std::optional<RecordedLifetime>& lifetime) {
  const std::size_t id = states_.size();
  if (id >= kMaxTensors) {
    return make_error(ErrorCode::kInvalidInput, "tensors[{}]: more than {} tensors", id,
                      kMaxTensors);
  }
  if (tensor.bytes == 0 || tensor.bytes > kMaxTensorBytes) {
    return make_error(ErrorCode::kInvalidInput, "tensors[{}].bytes: {}; must be 1 to {}", id,
                      tensor.bytes, kMaxTensorBytes);
  }
  if (tensor.persistent && tensor.scratch) {
    return make_error(ErrorCode::kInvalidInput,
                      "tensors[{}]: both persistent and scratch; scratch dies with its kernel", id);
  }
  if (tensor.persistent && lifetime) {
    return make_error(ErrorCode::kInvalidInput,
                      "tensors[{}]: persistent, but with a recorded lifetime", id);
  }
  State state;
  state.persistent = tensor.persistent;
  state.scratch = tensor.scratch;
  if (lifetime) {
    if (lifetime->death < lifetime->birth) {
      return make_error(ErrorCode::kInvalidInput,
                        "tensors[{}]: a cycle in lifetimes: dies in kernels[{}], before its birth "
                        "in kernels[{}]",
                        id, lifetime->death, lifetime->birth);
    }
    state.recorded = true;
    state.birth = lifetime->birth;
    state.death = lifetime->death;
  }
  states_.push_back(state);
  return {};
}

// Keeps the state of `id` until the caller has noted the use; `list` is "reads" or "writes".
Status TraceChecker::check_use(std::string_view list, std::size_t position, TensorId id) {
  const auto now = static_cast<KernelIndex>(kernel_count_);
  const State& state = states_[id];
  const auto fail = [&](std::string_view what) -> Status {
    return make_error(ErrorCode::kInvalidInput, "kernels[{}].{}[{}]: tensor {} {}", now, list,
                      position, id, what);
  };
  const bool write = list == "writes";
  if ((write ? state.last_write : state.last_read) == now) {
    return fail(fmt::format("is listed twice in the {} of this kernel", list));
  }
  if (state.persistent) {
    return {};
  }
  if (state.scratch && !write) {
    return fail("is scratch, which only the writes of its one kernel name");
  }
  if (state.scratch && state.first_use != kNever) {
    return fail(
        fmt::format("is scratch of kernels[{}]; scratch belongs to one kernel", state.first_use));
  }
  if (write && state.last_write == kNever && state.last_read != kNever && state.last_read != now) {
    return fail(
        fmt::format("was read by kernels[{}] before this first write: a cycle in "
                    "lifetimes; only a persistent tensor lives into the next iteration",
                    state.first_use));
  }
  if (state.recorded && (now < state.birth || now > state.death)) {
    return fail(fmt::format("is used outside its recorded lifetime, kernels[{}] to kernels[{}]",
                            state.birth, state.death));
  }
  if (state.recorded && state.first_use == kNever && now != state.birth) {
    return fail(
        fmt::format("is first used here, but its recorded birth is kernels[{}]", state.birth));
  }
  return {};
}

Status TraceChecker::access(std::string_view list, std::size_t position, TensorId id) {
  if (id >= states_.size()) {
    return make_error(ErrorCode::kInvalidInput,
                      "kernels[{}].{}[{}]: tensor {} does not exist; the trace has {} tensors",
                      kernel_count_, list, position, id, states_.size());
  }
  if (Status status = check_use(list, position, id); !status) {
    return status;
  }
  const auto now = static_cast<KernelIndex>(kernel_count_);
  State& state = states_[id];
  if (state.first_use == kNever) {
    state.first_use = now;
  }
  (list == "writes" ? state.last_write : state.last_read) = now;
  return {};
}

Status TraceChecker::kernel(const Kernel& kernel) {
  const std::uint64_t index = kernel_count_;
  if (index >= kMaxKernels) {
    return make_error(ErrorCode::kInvalidInput, "kernels[{}]: more than {} kernels", index,
                      kMaxKernels);
  }
  text_bytes_ += kernel.name.size();
  access_count_ += kernel.reads.size() + kernel.writes.size();
  if (text_bytes_ > kMaxTotalTextBytes) {
    return make_error(ErrorCode::kInvalidInput, "kernels[{}].name: names exceed {} bytes together",
                      index, kMaxTotalTextBytes);
  }
  if (access_count_ > kMaxAccesses) {
    return make_error(ErrorCode::kInvalidInput, "kernels[{}]: more than {} reads and writes", index,
                      kMaxAccesses);
  }
  if (Status status = check_duration(index, "duration_ns", kernel.duration_ns, 1); !status) {
    return status;
  }
  if (Status status = check_duration(index, "input_fault_ns", kernel.input_fault_ns, 0); !status) {
    return status;
  }
  if (Status status = check_duration(index, "all_fault_ns", kernel.all_fault_ns, 0); !status) {
    return status;
  }
  if (!is_plain_text(kernel.name) || kernel.name.size() > kMaxTextBytes) {
    return check_text(fmt::format("kernels[{}].name", index), kernel.name);
  }
  for (std::size_t i = 0; i < kernel.reads.size(); ++i) {
    if (Status status = access("reads", i, kernel.reads[i]); !status) {
      return status;
    }
  }
  for (std::size_t i = 0; i < kernel.writes.size(); ++i) {
    if (Status status = access("writes", i, kernel.writes[i]); !status) {
      return status;
    }
  }
  ++kernel_count_;
  return {};
}

Status TraceChecker::finish() const {
  if (kernel_count_ == 0) {
    return make_error(ErrorCode::kInvalidInput, "kernels: none; an iteration has at least one");
  }
  for (std::size_t id = 0; id < states_.size(); ++id) {
    const State& state = states_[id];
    if (!state.recorded) {
      continue;
    }
    if (state.first_use == kNever) {
      return make_error(ErrorCode::kInvalidInput,
                        "tensors[{}]: no kernel uses it, but its recorded birth is kernels[{}]", id,
                        state.birth);
    }
    const bool dies_in_read = state.last_read != kNever && state.last_read == state.death;
    const bool dies_in_write = state.last_write != kNever && state.last_write == state.death;
    if (!dies_in_read && !dies_in_write) {
      return make_error(ErrorCode::kInvalidInput,
                        "tensors[{}]: its recorded death is kernels[{}], which does not use it", id,
                        state.death);
    }
  }
  return {};
}

}  // namespace spillway
