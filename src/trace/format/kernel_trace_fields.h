// The fields of kernel-trace/1: which object has which, of what kind, and which it cannot miss.
// Layer: trace.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class FieldOwner : std::uint8_t { kDocument, kTensor, kKernel };
enum class FieldKind : std::uint8_t { kText, kWhole, kNumber, kFlag, kList };

// Also the position in kKernelTraceFields; kOther is every field that the format does not know.
enum class FieldId : std::uint8_t {
  kFormat,
  kModel,
  kBatchSize,
  kGpu,
  kDtype,
  kTensors,
  kKernels,
  kBytes,
  kPersistent,
  kName,
  kMs,
  kInputFaultMs,
  kAllFaultMs,
  kReads,
  kWrites,
  kSync,
  kOther,
};

struct KernelTraceField {
  FieldOwner owner;
  std::string_view name;
  FieldKind kind;
  std::string_view missing;  // why it must be there; empty where it need not
};

inline constexpr std::array<KernelTraceField, 16> kKernelTraceFields{{
    {FieldOwner::kDocument, "format", FieldKind::kText, "it must say kernel-trace/1"},
    {FieldOwner::kDocument, "model", FieldKind::kText, ""},
    {FieldOwner::kDocument, "batch_size", FieldKind::kWhole, ""},
    {FieldOwner::kDocument, "gpu", FieldKind::kText, ""},
    {FieldOwner::kDocument, "dtype", FieldKind::kText, ""},
    {FieldOwner::kDocument, "tensors", FieldKind::kList, "a trace lists its tensors"},
    {FieldOwner::kDocument, "kernels", FieldKind::kList, "a trace lists its kernels"},
    {FieldOwner::kTensor, "bytes", FieldKind::kWhole, "a tensor has a size"},
    {FieldOwner::kTensor, "persistent", FieldKind::kFlag, "it says whether the tensor lives on"},
    {FieldOwner::kKernel, "name", FieldKind::kText, "a kernel has a name"},
    {FieldOwner::kKernel, "ms", FieldKind::kNumber, "a kernel has a duration"},
    {FieldOwner::kKernel, "input_fault_ms", FieldKind::kNumber, ""},
    {FieldOwner::kKernel, "all_fault_ms", FieldKind::kNumber, ""},
    {FieldOwner::kKernel, "reads", FieldKind::kList, "it lists tensor ids, [] for none"},
    {FieldOwner::kKernel, "writes", FieldKind::kList, "it lists tensor ids, [] for none"},
    {FieldOwner::kKernel, "sync", FieldKind::kFlag, ""},
}};

[[nodiscard]] constexpr const KernelTraceField& field_of(FieldId id) {
  return kKernelTraceFields.at(static_cast<std::size_t>(id));
}
[[nodiscard]] constexpr std::uint32_t bit_of(FieldId id) {
  return 1U << static_cast<std::uint32_t>(id);
}

[[nodiscard]] constexpr FieldId find_field(FieldOwner owner, std::string_view name) {
  for (std::size_t i = 0; i < kKernelTraceFields.size(); ++i) {
    if (kKernelTraceFields.at(i).owner == owner && kKernelTraceFields.at(i).name == name) {
      return static_cast<FieldId>(i);
    }
  }
  return FieldId::kOther;
}

[[nodiscard]] constexpr std::string_view describe(FieldKind kind) {
  switch (kind) {
    case FieldKind::kText:
      return "a string";
    case FieldKind::kWhole:
      return "a whole number that is not negative";
    case FieldKind::kNumber:
      return "a number";
    case FieldKind::kFlag:
      return "true or false";
    case FieldKind::kList:
      return "an array";
  }
  return "";
}

}  // namespace spillway
