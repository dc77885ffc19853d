// See at_host_ranges.h.
#include "near/at_host_ranges.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "near/at_host_part.h"

namespace spillway::near {
namespace {

constexpr std::size_t kPartsAtOnce = 2;

bool begin(Part& part, const AtHost& at_host) {
  const std::optional<std::vector<spillway_at_host_operand>> operands = part.operands();
  std::uint64_t update = 0;
  if (!operands || at_host.begin(operands->data(), operands->size(), 1, nullptr, &update) == 0) {
    return false;
  }
  part.begun(update);
  return true;
}

}  // namespace

std::vector<Range> run_at_host(std::span<const spillway_near_tensor> tensors,
                               std::uint64_t element_bytes, std::uint64_t gradient_bytes,
                               const std::function<void(std::span<const Range>)>& run) {
  std::vector<Range> in_place;
  const AtHost* const found = at_host();
  if (found == nullptr) {
    for (const spillway_near_tensor& tensor : tensors) {
      in_place.push_back({tensor, 0, tensor.elements});
    }
    return in_place;
  }
  std::deque<Part> under_way;
  const auto finish_first = [&] {
    const Part part = std::move(under_way.front());
    under_way.pop_front();
    const std::optional<std::vector<Range>> ranges = part.ranges(*found);
    if (ranges) {
      run(*ranges);
    } else {
      in_place.push_back(part.range());
    }
    part.end(*found);
  };
  for (const spillway_near_tensor& tensor : tensors) {
    for (std::uint64_t start = 0; start < tensor.elements; start += kPartElements) {
      const Range range{tensor, start, std::min(start + kPartElements, tensor.elements)};
      Part part(range, element_bytes, gradient_bytes);
      if (!begin(part, *found)) {
        in_place.push_back(range);
        continue;
      }
      under_way.push_back(std::move(part));
      if (under_way.size() == kPartsAtOnce) {
        finish_first();
      }
    }
  }
  while (!under_way.empty()) {
    finish_first();
  }
  return in_place;
}

}  // namespace spillway::near
