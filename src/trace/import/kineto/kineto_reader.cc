// The events of a Kineto trace that an import needs. Layer: trace.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "trace/import/json_elements.h"
#include "trace/import/kineto/kineto_file.h"
#include "trace/import/storage_span.h"

namespace spillway {
namespace {

using nlohmann::json;

const json& no_object() {
  static const json kEmpty = json::object();
  return kEmpty;
}

// Microseconds with a fraction, as Chrome traces have them.
std::optional<std::uint64_t> nanoseconds(const json& event, const char* field) {
  constexpr double kNsPerUs = 1e3;
  constexpr double kMostUs = 9e15;  // year 2255
  const auto us = number_of(event, field);
  if (!us || !(*us >= 0 && *us <= kMostUs)) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(std::llround(*us * kNsPerUs));
}

template <typename Event>
Status check_room(const std::vector<Event>& events) {
  if (events.size() >= kMaxKernels) {
    return make_error(ErrorCode::kInvalidInput, "more than {} events of its kind", kMaxKernels);
  }
  return {};
}

class KinetoReader {
 public:
  Status event(const json& event) {
    const std::string* phase = text_of(event, "ph");
    const std::string* category = text_of(event, "cat");
    const std::string* name = text_of(event, "name");
    if (phase == nullptr) {
      return make_error(ErrorCode::kInvalidInput, "an event without \"ph\"");
    }
    if (category == nullptr || name == nullptr) {
      return {};
    }
    const json* const found = object_of(event, "args");
    const json& args = found != nullptr ? *found : no_object();
    if (*phase == "i" && *name == "[memory]") {
      return memory(event, args);
    }
    if (*phase != "X") {
      return {};
    }
    if (*category == "cpu_op" || *category == "user_annotation") {
      return host_operator(event, args, *name, *category != "cpu_op");
    }
    if (*category == "kernel" || *category == "gpu_memcpy" || *category == "gpu_memset") {
      return work(event, args, *name);
    }
    if (*category == "cuda_runtime" || *category == "cuda_driver") {
      return call(event, args);
    }
    return {};
  }

  Status field(const std::string& name, const json& value) {
    if (name == "deviceProperties" && value.is_array()) {
      for (const json& device : value) {
        const auto id = whole_of(device, "id");
        const std::string* text = text_of(device, "name");
        if (id && text != nullptr) {
          file_.device_names[*id] = *text;
        }
      }
    }
    return {};
  }

  KinetoFile take() { return std::move(file_); }

 private:
  struct Span {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };

  static Result<Span> span_of(const json& event) {
    const auto begin_ns = nanoseconds(event, "ts");
    const auto duration_ns = nanoseconds(event, "dur");
    if (!begin_ns || !duration_ns || *duration_ns > kMaxDurationNs) {
      return make_error(ErrorCode::kInvalidInput,
                        "ts and dur must be microseconds, not negative, dur at most {} ns",
                        kMaxDurationNs);
    }
    return Span{*begin_ns, *begin_ns + *duration_ns};
  }

  Status memory(const json& event, const json& args) {
    const auto at_ns = nanoseconds(event, "ts");
    const auto address = whole_of(args, "Addr");
    const auto bytes = integer_of(args, "Bytes");
    const auto type = integer_of(args, "Device Type");
    if (!at_ns || !address || !bytes || !type ||
        std::abs(static_cast<double>(*bytes)) > static_cast<double>(kMaxTensorBytes)) {
      return make_error(ErrorCode::kInvalidInput,
                        "[memory] has ts, Addr, Bytes (at most {}) and Device Type",
                        kMaxTensorBytes);
    }
    const bool host = *type == 0;
    file_.memory.push_back(
        {*at_ns, *address, *bytes,
         host ? -1 : std::max<std::int64_t>(integer_of(args, "Device Id").value_or(0), 0),
         whole_of(args, "Total Allocated").value_or(0)});
    return check_room(file_.memory);
  }

  Status host_operator(const json& event, const json& args, const std::string& name,
                       bool annotation) {
    const Result<Span> span = span_of(event);
    if (!span) {
      return tl::unexpected(span.error());
    }
    const auto number = file_.names.add(name);
    if (!number) {
      return tl::unexpected(number.error());
    }
    KinetoOperator op;
    op.name = *number;
    op.thread = whole_of(event, "tid").value_or(0);
    op.begin_ns = span->begin_ns;
    op.end_ns = span->end_ns;
    op.external_id = whole_of(args, "External id").value_or(0);
    op.rf_id = whole_of(args, "Record function id").value_or(0);
    op.sequence = integer_of(args, "Sequence number").value_or(-1);
    op.first_input = file_.inputs.size();
    op.annotation = annotation;
    if (Status status = inputs(args); !status) {
      return status;
    }
    op.inputs = static_cast<std::uint32_t>(file_.inputs.size() - op.first_input);
    file_.operators.push_back(op);
    return check_room(file_.operators);
  }

  // "Input type" and, for each, "Input Dims"; neither without record_shapes.
  Status inputs(const json& args) {
    const json* types = list_of(args, "Input type");
    const json* shapes = list_of(args, "Input Dims");
    if (types == nullptr || shapes == nullptr) {
      return {};
    }
    if (types->size() != shapes->size()) {
      return make_error(ErrorCode::kInvalidInput,
                        "\"Input type\" and \"Input Dims\" must be lists of one length");
    }
    for (std::size_t i = 0; i < types->size(); ++i) {
      const auto* type = (*types)[i].get_ptr<const std::string*>();
      if (type == nullptr) {
        return make_error(ErrorCode::kInvalidInput, "\"Input type\"[{}]: not text", i);
      }
      if (*type == "TensorList" && (*shapes)[i].is_array()) {
        for (const json& shape : (*shapes)[i]) {
          add_input(shape, 0);
        }
      } else if (const auto bytes = element_bytes_of(*type)) {
        add_input((*shapes)[i], *bytes);
      }
    }
    return file_.inputs.size() <= kMaxImportedInputs
               ? Status{}
               : make_error(ErrorCode::kInvalidInput, "more than {} inputs", kMaxImportedInputs);
  }

  void add_input(const json& shape, std::uint32_t element_bytes) {
    const std::uint64_t elements = elements_of(shape);
    if (elements > 0 && elements <= kMaxTensorBytes / std::max(element_bytes, 1U)) {
      file_.inputs.push_back({elements, element_bytes});
    }
  }

  Status work(const json& event, const json& args, const std::string& name) {
    const Result<Span> span = span_of(event);
    if (!span) {
      return tl::unexpected(span.error());
    }
    const auto number = file_.names.add(name);
    if (!number) {
      return tl::unexpected(number.error());
    }
    file_.work.push_back(
        {*number, span->begin_ns, span->end_ns, whole_of(args, "External id").value_or(0),
         whole_of(args, "correlation").value_or(0), whole_of(args, "device").value_or(0)});
    return check_room(file_.work);
  }

  Status call(const json& event, const json& args) {
    const Result<Span> span = span_of(event);
    if (!span) {
      return tl::unexpected(span.error());
    }
    if (const auto correlation = whole_of(args, "correlation"); correlation && *correlation != 0) {
      file_.calls_ns[*correlation] = span->begin_ns;
    }
    return file_.calls_ns.size() <= kMaxKernels
               ? Status{}
               : make_error(ErrorCode::kInvalidInput, "more than {} calls", kMaxKernels);
  }

  KinetoFile file_;
};

}  // namespace

std::optional<std::uint32_t> element_bytes_of(const std::string& type) {
  struct Type {
    std::string_view name;
    std::uint32_t bytes;
  };
  static constexpr std::array<Type, 14> kTypes{{{"float", 4},
                                                {"double", 8},
                                                {"c10::Half", 2},
                                                {"c10::BFloat16", 2},
                                                {"long int", 8},
                                                {"long", 8},
                                                {"int", 4},
                                                {"short", 2},
                                                {"short int", 2},
                                                {"signed char", 1},
                                                {"unsigned char", 1},
                                                {"bool", 1},
                                                {"c10::complex<float>", 8},
                                                {"c10::complex<double>", 16}}};
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const Type& known) { return known.name == type; });
  if (found != kTypes.end()) {
    return found->bytes;
  }
  return type.starts_with("c10::Float8") ? std::optional<std::uint32_t>(1) : std::nullopt;
}

Result<KinetoFile> read_kineto(ByteSource& text) {
  KinetoReader reader;
  const Status status = read_json_elements(
      text, "traceEvents", [&](const json& event) { return reader.event(event); },
      [&](const std::string& name, const json& value) { return reader.field(name, value); });
  if (!status) {
    return tl::unexpected(status.error());
  }
  return reader.take();
}

}  // namespace spillway
