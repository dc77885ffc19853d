// Products that do not overflow. Layer: trace.
#include "trace/import/storage_span.h"

#include <optional>

#include "trace/import/json_elements.h"
#include "trace/limits.h"

namespace spillway {
namespace {

constexpr std::uint64_t kTooMany = kMaxTensorBytes + 1;

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return a != 0 && b > kTooMany / a ? kTooMany : a * b;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return a > kTooMany || b > kTooMany - a ? kTooMany : a + b;
}

// Elements from the first to behind the last; nothing where a list is not what it should be.
std::optional<std::uint64_t> reach_of(const nlohmann::json& shape, const nlohmann::json& strides) {
  if (!shape.is_array() || !strides.is_array() || shape.size() != strides.size()) {
    return std::nullopt;
  }
  std::uint64_t reach = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto size = whole(shape[i]);
    const auto stride = whole(strides[i]);
    if (!size || !stride || *size == 0) {
      return std::nullopt;
    }
    reach = plus(reach, times(*size - 1, *stride));
  }
  return reach;
}

}  // namespace

std::uint64_t elements_of(const nlohmann::json& shape) {
  if (!shape.is_array()) {
    return kTooMany;
  }
  std::uint64_t elements = 1;
  for (const nlohmann::json& size : shape) {
    elements = times(elements, whole(size).value_or(kTooMany));
  }
  return elements;
}

Result<Bytes> storage_span(const nlohmann::json& shape, const nlohmann::json& strides,
                           std::uint64_t elements, std::uint64_t offset,
                           std::uint64_t element_bytes) {
  if (elements == 0) {
    return 0;
  }
  const std::uint64_t reach = reach_of(shape, strides).value_or(elements);
  const Bytes bytes = times(plus(offset, reach), element_bytes);
  if (bytes > kMaxTensorBytes) {
    return make_error(ErrorCode::kInvalidInput, "a tensor of more than {} bytes", kMaxTensorBytes);
  }
  return bytes;
}

}  // namespace spillway
