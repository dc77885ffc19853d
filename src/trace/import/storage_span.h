// How much of its storage a tensor covers. Layer: trace.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"

namespace spillway {

// Bytes from the beginning of the storage to behind the tensor's last element: an expanded tensor
// has more elements than its storage, a slice fewer. `shape` and `strides` are lists of whole
// numbers of one length; where they are not, `elements` counts. 0 for a tensor without elements.
// kInvalidInput where it is more than kMaxTensorBytes.
[[nodiscard]] Result<Bytes> storage_span(const nlohmann::json& shape, const nlohmann::json& strides,
                                         std::uint64_t elements, std::uint64_t offset,
                                         std::uint64_t element_bytes);
// The elements of a tensor of that shape; as many as no tensor has where it is no such list.
[[nodiscard]] std::uint64_t elements_of(const nlohmann::json& shape);

}  // namespace spillway
