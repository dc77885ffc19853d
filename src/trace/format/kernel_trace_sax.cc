// The state machine of kernel-trace/1. Layer: trace.
#include "trace/format/kernel_trace_sax.h"

#include <cmath>
#include <limits>
#include <utility>

#include "trace/format/json_source.h"
#include "trace/limits.h"

namespace spillway {
namespace {

constexpr std::string_view kFormat = "kernel-trace/1";
constexpr double kNsPerMsReal = 1e6;

}  // namespace

FieldOwner KernelTraceSax::owner() const {
  return place_ == Place::kTensor   ? FieldOwner::kTensor
         : place_ == Place::kKernel ? FieldOwner::kKernel
                                    : FieldOwner::kDocument;
}

std::string KernelTraceSax::record_path() const {
  switch (place_) {
    case Place::kTensors:
    case Place::kTensor:
      return fmt::format("tensors[{}]", checker_.tensor_count());
    case Place::kKernels:
    case Place::kKernel:
      return fmt::format("kernels[{}]", checker_.kernel_count());
    case Place::kReads:
      return fmt::format("kernels[{}].reads[{}]", checker_.kernel_count(), kernel_.reads.size());
    case Place::kWrites:
      return fmt::format("kernels[{}].writes[{}]", checker_.kernel_count(), kernel_.writes.size());
    case Place::kNothing:
    case Place::kDocument:
      return "the document";
  }
  return "";
}

std::string KernelTraceSax::path() const {
  switch (place_) {
    case Place::kDocument:
      return key_;
    case Place::kTensor:
    case Place::kKernel:
      return fmt::format("{}.{}", record_path(), key_);
    default:
      return record_path();
  }
}

bool KernelTraceSax::fail_at(std::string_view place, std::string_view what) {
  error_ = {ErrorCode::kInvalidInput, fmt::format("{}: {}", place, what)};
  return false;
}

bool KernelTraceSax::accept(const Status& status) {
  if (!status) {
    error_ = status.error();
  }
  return status.has_value();
}

bool KernelTraceSax::wrong_kind(std::string_view found) {
  const bool in_list = place_ == Place::kReads || place_ == Place::kWrites;
  const bool in_records = place_ == Place::kTensors || place_ == Place::kKernels;
  const std::string_view expected = in_list                     ? "a tensor id"
                                    : in_records                ? "an object"
                                    : place_ == Place::kNothing ? "an object"
                                                                : describe(field_of(field_).kind);
  return fail(fmt::format("expected {}, found {}", expected, found));
}

// Is every field there that an object of this kind cannot miss?
bool KernelTraceSax::complete(FieldOwner owner, std::string_view place) {
  for (std::size_t i = 0; i < kKernelTraceFields.size(); ++i) {
    const KernelTraceField& field = kKernelTraceFields.at(i);
    if (field.owner == owner && !field.missing.empty() &&
        (seen_ & bit_of(static_cast<FieldId>(i))) == 0) {
      return fail_at(place, fmt::format("no \"{}\"; {}", field.name, field.missing));
    }
  }
  return true;
}

bool KernelTraceSax::set_time(double ms, TimeNs least_ns, TimeNs& out) {
  const double ns = std::round(ms * kNsPerMsReal);
  if (!(ns >= static_cast<double>(least_ns) && ns <= static_cast<double>(kMaxDurationNs))) {
    return fail(fmt::format("{} ms; must be {} to {} ns", ms, least_ns, kMaxDurationNs));
  }
  out = static_cast<TimeNs>(ns);
  return true;
}

bool KernelTraceSax::set_field(const Value& value) {
  switch (field_) {
    case FieldId::kFormat:
      if (*value.text != kFormat) {
        return fail(fmt::format("\"{}\" is not a version that this program reads; it reads {}",
                                one_line(*value.text), kFormat));
      }
      return true;
    case FieldId::kModel:
      header_.model = std::move(*value.text);
      return true;
    case FieldId::kBatchSize:
      header_.batch_size = value.whole;
      return true;
    case FieldId::kGpu:
      header_.device = std::move(*value.text);
      return true;
    case FieldId::kDtype:
      header_.dtype = std::move(*value.text);
      return true;
    case FieldId::kBytes:
      tensor_.bytes = value.whole;
      return true;
    case FieldId::kPersistent:
      tensor_.persistent = value.flag;
      return true;
    case FieldId::kName:
      kernel_.name = std::move(*value.text);
      return true;
    case FieldId::kMs:
      return set_time(value.number, 1, kernel_.duration_ns);
    case FieldId::kInputFaultMs:
      return set_time(value.number, 0, kernel_.input_fault_ns);
    case FieldId::kAllFaultMs:
      return set_time(value.number, 0, kernel_.all_fault_ns);
    case FieldId::kSync:
      kernel_.synchronizes = value.flag;
      return true;
    case FieldId::kTensors:
    case FieldId::kKernels:
    case FieldId::kReads:
    case FieldId::kWrites:
    case FieldId::kOther:
      break;
  }
  return true;
}

bool KernelTraceSax::add_access(const Value& value) {
  std::vector<TensorId>& list = place_ == Place::kReads ? kernel_.reads : kernel_.writes;
  const std::uint64_t tensors = checker_.tensor_count();
  if (!value.is_whole) {
    return wrong_kind(value.describe());
  }
  // Without duplicates a list is no longer than the tensors; the bound also ends hostile lists.
  if (value.whole >= tensors || list.size() >= tensors) {
    return fail(value.whole >= tensors
                    ? fmt::format("tensor {} does not exist; the trace has {} tensors", value.whole,
                                  tensors)
                    : fmt::format("lists more than the {} tensors of the trace", tensors));
  }
  list.push_back(static_cast<TensorId>(value.whole));
  return true;
}

bool KernelTraceSax::scalar(const Value& value) {
  progress_();
  if (skip_depth_ > 0) {
    return true;
  }
  if (place_ == Place::kReads || place_ == Place::kWrites) {
    return add_access(value);
  }
  if (place_ == Place::kNothing || place_ == Place::kTensors || place_ == Place::kKernels) {
    return wrong_kind(value.describe());
  }
  if (field_ == FieldId::kOther) {
    return true;
  }
  const FieldKind kind = field_of(field_).kind;
  const bool fits = (kind == FieldKind::kText && value.text != nullptr) ||
                    (kind == FieldKind::kWhole && value.is_whole) ||
                    (kind == FieldKind::kNumber && value.is_number) ||
                    (kind == FieldKind::kFlag && value.is_flag);
  return fits ? set_field(value) : wrong_kind(value.describe());
}

std::string KernelTraceSax::Value::describe() const {
  if (is_whole) {
    return fmt::format("{}", whole);
  }
  if (is_number) {
    return fmt::format("{}", number);
  }
  if (is_flag) {
    return flag ? "true" : "false";
  }
  return text == nullptr ? "null" : "a string";
}

bool KernelTraceSax::null() { return scalar({}); }

bool KernelTraceSax::boolean(bool value) {
  Value scalar_value;
  scalar_value.is_flag = true;
  scalar_value.flag = value;
  return scalar(scalar_value);
}

bool KernelTraceSax::number_integer(std::int64_t value) {
  return number_float(static_cast<double>(value), {});
}

bool KernelTraceSax::number_unsigned(std::uint64_t value) {
  Value scalar_value;
  scalar_value.is_number = true;
  scalar_value.is_whole = true;
  scalar_value.whole = value;
  scalar_value.number = static_cast<double>(value);
  return scalar(scalar_value);
}

bool KernelTraceSax::number_float(double value, const std::string& /*text*/) {
  Value scalar_value;
  scalar_value.is_number = true;
  scalar_value.number = value;
  return scalar(scalar_value);
}

bool KernelTraceSax::string(std::string& value) {
  Value scalar_value;
  scalar_value.text = &value;
  return scalar(scalar_value);
}

bool KernelTraceSax::binary(nlohmann::json::binary_t& /*value*/) {
  return fail("binary data");  // the parser of JSON text never calls this
}

bool KernelTraceSax::key(std::string& name) {
  progress_();
  if (skip_depth_ > 0) {
    return true;
  }
  field_ = find_field(owner(), name);
  key_ = one_line(name);
  if (field_ == FieldId::kOther) {
    return true;
  }
  if ((seen_ & bit_of(field_)) != 0) {
    return fail("given twice");
  }
  seen_ |= bit_of(field_);
  return true;
}

bool KernelTraceSax::parse_error(std::size_t position, const std::string& /*token*/,
                                 const nlohmann::json::exception& error) {
  error_ = json_error(position, error.what());
  return false;
}

}  // namespace spillway
