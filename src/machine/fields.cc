// The table of a machine's fields, and reading and writing one of them. Layer: machine.
#include "machine/fields.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "machine/quantity.h"

namespace spillway {
namespace {

constexpr double kPage = static_cast<double>(kPageBytes);
constexpr double kLargest = static_cast<double>(1024 * kTiB);  // below 2^53: exact as a double
constexpr double kSlowest = 1e6;   // 1 MB/s: a forgotten unit is far below
constexpr double kFastest = 1e15;  // 1 PB/s
constexpr double kLongestNs = 1e10;
constexpr double kMostFlops = 1e18;

using M = Machine;
using K = FieldKind;

constexpr std::array<Field, 45> kFields{{
    {"", "name", K::kText, 0, 0, true, [](M& m) -> FieldRef { return &m.name; }},
    {"", "source", K::kText, 0, 0, true, [](M& m) -> FieldRef { return &m.source; }},
    {"device", "capacity", K::kBytes, kPage, kLargest, false,
     [](M& m) -> FieldRef { return &m.device.capacity_bytes; }},
    {"device", "frame", K::kBytes, kPage, static_cast<double>(kBlockBytes), false,
     [](M& m) -> FieldRef { return &m.device.frame_bytes; }},
    {"device", "zero_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.device.zero_bandwidth_bytes_per_s; }},
    {"device", "row_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.device.row_bandwidth_bytes_per_s; }},
    {"device", "memory_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.device.memory_bandwidth_bytes_per_s; }},
    {"device", "flops_bf16", K::kNumber, 0, kMostFlops, true,
     [](M& m) -> FieldRef { return &m.device.bf16_flops_per_s; }},
    {"device", "flops_tf32", K::kNumber, 0, kMostFlops, true,
     [](M& m) -> FieldRef { return &m.device.tf32_flops_per_s; }},
    {"device", "flops_fp32", K::kNumber, 0, kMostFlops, true,
     [](M& m) -> FieldRef { return &m.device.fp32_flops_per_s; }},
    {"device", "processors", K::kCount, 0, 65536, true,
     [](M& m) -> FieldRef { return &m.device.processors; }},
    {"device", "compute_capability", K::kNumber, 0, 99, true,
     [](M& m) -> FieldRef { return &m.device.compute_capability; }},
    {"device", "block", K::kBytes, kPage, static_cast<double>(kGiB), false,
     [](M& m) -> FieldRef { return &m.device.block_bytes; }},
    {"handles", "create", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.handles.create_ns; }},
    {"handles", "release", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.handles.release_ns; }},
    {"handles", "map", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.handles.map_ns; }},
    {"handles", "map_wait", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.handles.map_wait_ns; }},
    {"handles", "unmap", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.handles.unmap_ns; }},
    {"handles", "clear_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.handles.clear_bytes_per_s; }},
    {"host", "capacity", K::kBytes, kPage, kLargest, true,
     [](M& m) -> FieldRef { return &m.host.capacity_bytes; }},
    {"host", "launch", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.host.launch_ns; }},
    {"host", "told", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.host.tracked_ns; }},
    {"host", "memory_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.host.memory_bytes_per_s; }},
    {"host", "cores", K::kCount, 1, 65536, true, [](M& m) -> FieldRef { return &m.host.cores; }},
    {"host", "core_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.host.core_bytes_per_s; }},
    {"link", "to_device", K::kBandwidth, kSlowest, kFastest, false,
     [](M& m) -> FieldRef { return &m.link.to_device_bytes_per_s; }},
    {"link", "from_device", K::kBandwidth, kSlowest, kFastest, false,
     [](M& m) -> FieldRef { return &m.link.from_device_bytes_per_s; }},
    {"link", "both_ways", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.link.both_ways_bytes_per_s; }},
    {"link", "far_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.link.host_mapped_bytes_per_s; }},
    {"link", "latency", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.link.latency_ns; }},
    {"faults", "model", K::kFaultModel, 0, 0, true,
     [](M& m) -> FieldRef { return &m.faults.model; }},
    {"faults", "latency", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.faults.latency_ns; }},
    {"faults", "batch_blocks", K::kCount, 1, 65536, false,
     [](M& m) -> FieldRef { return &m.faults.batch_blocks; }},
    {"faults", "batches_in_flight", K::kCount, 1, 1024, false,
     [](M& m) -> FieldRef { return &m.faults.batches_in_flight; }},
    {"storage", "capacity", K::kBytes, kPage, kLargest, true,
     [](M& m) -> FieldRef { return &m.storage.capacity_bytes; }},
    {"storage", "read_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.storage.read_bytes_per_s; }},
    {"storage", "write_bandwidth", K::kBandwidth, kSlowest, kFastest, true,
     [](M& m) -> FieldRef { return &m.storage.write_bytes_per_s; }},
    {"storage", "read_latency", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.storage.read_latency_ns; }},
    {"storage", "write_latency", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.storage.write_latency_ns; }},
    {"storage", "flash_page", K::kBytes, 512, static_cast<double>(kBlockBytes), false,
     [](M& m) -> FieldRef { return &m.storage.flash_page_bytes; }},
    {"storage", "erase_block", K::kBytes, 512, static_cast<double>(kGiB), false,
     [](M& m) -> FieldRef { return &m.storage.erase_block_bytes; }},
    {"storage", "over_provisioning", K::kNumber, 0, 4, true,
     [](M& m) -> FieldRef { return &m.storage.over_provisioning; }},
    {"storage", "endurance_dwpd", K::kNumber, 0, 1000, true,
     [](M& m) -> FieldRef { return &m.storage.endurance_drive_writes_per_day; }},
    {"storage", "endurance_years", K::kNumber, 0, 100, true,
     [](M& m) -> FieldRef { return &m.storage.endurance_years; }},
    {"storage", "erase_latency", K::kTime, 1, kLongestNs, true,
     [](M& m) -> FieldRef { return &m.storage.erase_latency_ns; }},
}};

// The fields are only read through the reference that comes back.
FieldRef ref_of(const Machine& machine, const Field& field) {
  return field.ref(const_cast<Machine&>(machine));
}

std::string bound(const Field& field, double value) {
  switch (field.kind) {
    case FieldKind::kBytes:
      return exact_bytes(static_cast<Bytes>(value));
    case FieldKind::kBandwidth:
      return exact_bandwidth(value);
    case FieldKind::kTime:
      return exact_time(static_cast<TimeNs>(value));
    default:
      return fmt::format("{}", value);
  }
}

bool in_bounds(const Field& field, double value) {
  return (value >= field.min && value <= field.max) || (value == 0 && field.zero_allowed);
}

// Everything but plain numbers counts something whole; fractions of it are mistakes.
bool acceptable(const Field& field, double number) {
  return in_bounds(field, number) &&
         (field.kind == FieldKind::kNumber || number == std::nearbyint(number));
}

Result<double> number_from_text(FieldKind kind, std::string_view text) {
  const auto as_double = [](auto value) { return static_cast<double>(value); };
  double number = 0;
  switch (kind) {
    case FieldKind::kBytes:
      return parse_bytes(text).map(as_double);
    case FieldKind::kBandwidth:
      return parse_bandwidth(text);
    case FieldKind::kTime:
      return parse_time(text).map(as_double);
    default:
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) {
        return make_error(ErrorCode::kInvalidInput, "'{}' is not allowed", text);
      }
      return number;
  }
}

void store(Machine& machine, const Field& field, double number) {
  std::visit(
      [number](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_arithmetic_v<T>) {
          *target = static_cast<T>(number);
        }
      },
      field.ref(machine));
}

std::string toml_string(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>{text};
  return out.str();
}

}  // namespace

std::string Field::key() const {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

std::span<const Field> machine_fields() { return kFields; }

std::string expected_value(const Field& field) {
  const auto range = [&field](std::string_view what) {
    const bool says_zero = field.zero_allowed && field.min > 0;
    return fmt::format("{} from {} to {}{}", what, bound(field, field.min), bound(field, field.max),
                       says_zero ? ", or 0" : "");
  };
  switch (field.kind) {
    case FieldKind::kText:
      return "text";
    case FieldKind::kBytes:
      return range("a size");
    case FieldKind::kBandwidth:
      return range("a bandwidth");
    case FieldKind::kTime:
      return range("a time with its unit");
    case FieldKind::kNumber:
      return range("a number");
    case FieldKind::kCount:
      return range("a whole number");
    case FieldKind::kFaultModel:
      return "\"replayable\" or \"launch\"";
  }
  return "";
}

Status set_field(Machine& machine, const Field& field, double number) {
  const bool is_text = field.kind == FieldKind::kText || field.kind == FieldKind::kFaultModel;
  const bool lacks_unit = field.kind == FieldKind::kTime && number != 0;
  if (is_text || lacks_unit || !acceptable(field, number)) {
    return make_error(ErrorCode::kInvalidInput, "{} is not allowed; expected {}", number,
                      expected_value(field));
  }
  store(machine, field, number);
  return {};
}

Status set_field(Machine& machine, const Field& field, std::string_view text) {
  const FieldRef target = field.ref(machine);
  if (field.kind == FieldKind::kText) {
    *std::get<std::string*>(target) = std::string(text);
    return {};
  }
  if (field.kind == FieldKind::kFaultModel && (text == "replayable" || text == "launch")) {
    *std::get<FaultModel*>(target) =
        text == "launch" ? FaultModel::kLaunch : FaultModel::kReplayable;
    return {};
  }
  const Result<double> number = number_from_text(field.kind, text);
  if (!number) {
    return make_error(ErrorCode::kInvalidInput, "{}; expected {}", number.error().message,
                      expected_value(field));
  }
  if (!acceptable(field, *number)) {
    return make_error(ErrorCode::kInvalidInput, "'{}' is not allowed; expected {}", text,
                      expected_value(field));
  }
  store(machine, field, *number);
  return {};
}

bool field_in_bounds(const Machine& machine, const Field& field) {
  return std::visit(
      [&field](const auto* value) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(value)>>;
        if constexpr (std::is_arithmetic_v<T>) {
          return in_bounds(field, static_cast<double>(*value));
        } else {
          return true;
        }
      },
      ref_of(machine, field));
}

std::string field_as_toml(const Machine& machine, const Field& field) {
  const FieldRef value = ref_of(machine, field);
  switch (field.kind) {
    case FieldKind::kText:
      return toml_string(*std::get<std::string*>(value));
    case FieldKind::kBytes:
      return fmt::format("\"{}\"", exact_bytes(*std::get<Bytes*>(value)));
    case FieldKind::kBandwidth:
      return fmt::format("\"{}\"", exact_bandwidth(*std::get<double*>(value)));
    case FieldKind::kTime:
      return fmt::format("\"{}\"", exact_time(*std::get<TimeNs*>(value)));
    case FieldKind::kNumber:
      return fmt::format("{}", *std::get<double*>(value));
    case FieldKind::kCount:
      return fmt::format("{}", *std::get<std::uint32_t*>(value));
    case FieldKind::kFaultModel:
      return *std::get<FaultModel*>(value) == FaultModel::kLaunch ? "\"launch\"" : "\"replayable\"";
  }
  return "";
}

}  // namespace spillway
