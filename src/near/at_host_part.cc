// See at_host_part.h.
#include "near/at_host_part.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "optimizer/update.h"

namespace spillway::near {
namespace {

AtHost find() {
  AtHost found;
  const auto look_up = [](auto& function, const char* name) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym gives
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(RTLD_DEFAULT, name));
  };
  look_up(found.begin, "spillway_at_host_begin");
  look_up(found.extents, "spillway_at_host_extents");
  look_up(found.end, "spillway_at_host_end");
  look_up(found.takes, "spillway_at_host_takes");
  look_up(found.next, "spillway_at_host_next");
  look_up(found.send, "spillway_at_host_send");
  return found;
}

}  // namespace

const AtHost* at_host() {
  static const AtHost found = find();
  return found.begin != nullptr && found.extents != nullptr && found.end != nullptr ? &found
                                                                                    : nullptr;
}

const AtHost* at_host_of_gpu() {
  const AtHost* const found = at_host();
  return found != nullptr && found->takes != nullptr && found->next != nullptr &&
                 found->send != nullptr
             ? found
             : nullptr;
}

Part::Part(const Range& range, std::uint64_t element_bytes, std::uint64_t gradient_bytes)
    : range_(range) {
  using Tensor = spillway_near_tensor;
  const std::array operands{Used{&Tensor::parameter, &Tensor::parameter_out, element_bytes},
                            Used{&Tensor::gradient, &Tensor::gradient_out, gradient_bytes},
                            Used{&Tensor::first, &Tensor::first_out, element_bytes},
                            Used{&Tensor::second, &Tensor::second_out, element_bytes},
                            Used{&Tensor::max_second, &Tensor::max_second_out, element_bytes}};
  std::copy_if(operands.begin(), operands.end(), std::back_inserter(used_),
               [&](const Used& used) { return used.start(range.tensor) != nullptr; });
}

std::optional<std::vector<spillway_at_host_operand>> Part::operands() const {
  std::vector<spillway_at_host_operand> named;
  for (const Used& used : used_) {
    const void* const in = range_.tensor.*used.in;
    const void* const out = range_.tensor.*used.out;
    const void* const start = used.start(range_.tensor);
    const bool in_place = in == nullptr || out == nullptr || in == out;
    const bool cut_at_grains = std::bit_cast<std::uintptr_t>(start) %
                                   (optimizer::Update::kGrainElements * used.element_bytes) ==
                               0;
    if (!in_place || !cut_at_grains) {
      return std::nullopt;
    }
    named.push_back({.start = const_cast<char*>(static_cast<const char*>(start)) +
                              range_.begin * used.element_bytes,
                     .bytes = (range_.end - range_.begin) * used.element_bytes,
                     .writes = out != nullptr ? 1 : 0});
  }
  return named;
}

std::optional<std::vector<Range>> Part::ranges(const AtHost& at_host) const {
  std::vector<std::vector<spillway_at_host_extent>> extents;
  std::vector<std::uint64_t> cuts{range_.begin, range_.end};
  for (std::size_t i = 0; i < used_.size(); ++i) {
    std::vector<spillway_at_host_extent> of(at_host.extents(update_, i, nullptr, 0));
    if (of.empty()) {
      return std::nullopt;
    }
    (void)at_host.extents(update_, i, of.data(), of.size());
    std::uint64_t bytes = 0;
    for (const spillway_at_host_extent& extent : of) {
      bytes += extent.bytes;
      const std::uint64_t cut = range_.begin + bytes / used_[i].element_bytes;
      const bool whole =
          bytes % used_[i].element_bytes == 0 && cut % optimizer::Update::kGrainElements == 0;
      if (!whole && cut != range_.end) {
        return std::nullopt;
      }
      cuts.push_back(cut);
    }
    extents.push_back(std::move(of));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Range> ranges;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    ranges.push_back(moved(cuts[i], cuts[i + 1], extents));
  }
  return ranges;
}

Range Part::moved(std::uint64_t begin, std::uint64_t end,
                  const std::vector<std::vector<spillway_at_host_extent>>& extents) const {
  Range range{range_.tensor, begin, end};
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const Used& used = used_[i];
    std::uint64_t offset = (begin - range_.begin) * used.element_bytes;
    std::size_t at = 0;
    while (offset >= extents[i][at].bytes) {
      offset -= extents[i][at++].bytes;
    }
    char* const start = extents[i][at].at + offset - begin * used.element_bytes;
    if (range_.tensor.*used.in != nullptr) {
      range.tensor.*used.in = start;
    }
    if (range_.tensor.*used.out != nullptr) {
      range.tensor.*used.out = start;
    }
  }
  return range;
}

}  // namespace spillway::near
