// See at_host_ranges.h.
#include "front/near/at_host_ranges.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <optional>

#include "front/near/at_host.h"
#include "optimizer/update.h"

namespace spillway::near {
namespace {

// Of a part: 16 MiB of each operand of 4 bytes, so that a transfer is worth its latency and two
// parts are little of host memory.
constexpr std::uint64_t kPartElements = std::uint64_t{1} << 22U;
constexpr std::size_t kPartsAtOnce = 2;

// What the preloaded library offers.
struct Space {
  decltype(&spillway_at_host_begin) begin = nullptr;
  decltype(&spillway_at_host_extents) extents = nullptr;
  decltype(&spillway_at_host_end) end = nullptr;
};

const Space* space() {
  static const Space found = [] {
    Space space;
    const auto look_up = [](auto& function, const char* name) {
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym gives
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          ::dlsym(RTLD_DEFAULT, name));
    };
    look_up(space.begin, "spillway_at_host_begin");
    look_up(space.extents, "spillway_at_host_extents");
    look_up(space.end, "spillway_at_host_end");
    return space;
  }();
  return found.begin != nullptr && found.extents != nullptr && found.end != nullptr ? &found
                                                                                    : nullptr;
}

// An operand of a part, in and out.
struct Operand {
  const void* spillway_near_tensor::*in;
  void* spillway_near_tensor::*out;
  bool gradient = false;
};
constexpr std::array kOperands{
    Operand{&spillway_near_tensor::parameter, &spillway_near_tensor::parameter_out},
    Operand{&spillway_near_tensor::gradient, &spillway_near_tensor::gradient_out, true},
    Operand{&spillway_near_tensor::first, &spillway_near_tensor::first_out},
    Operand{&spillway_near_tensor::second, &spillway_near_tensor::second_out},
    Operand{&spillway_near_tensor::max_second, &spillway_near_tensor::max_second_out}};

class Part {
 public:
  Part(const Range& range, std::uint64_t element_bytes, std::uint64_t gradient_bytes)
      : range_(range) {
    for (const Operand& operand : kOperands) {
      if (range.tensor.*operand.in != nullptr) {
        used_.push_back({operand, operand.gradient ? gradient_bytes : element_bytes});
      }
    }
  }

  // Whether its operands come to host memory.
  [[nodiscard]] bool begin(const Space& space) {
    std::vector<spillway_at_host_operand> named;
    for (const Used& used : used_) {
      const void* const in = range_.tensor.*used.operand.in;
      const void* const out = range_.tensor.*used.operand.out;
      const auto address = std::bit_cast<std::uintptr_t>(in);
      const bool cut_at_grains =
          address % (optimizer::Update::kGrainElements * used.element_bytes) == 0;
      if ((out != in && out != nullptr) || !cut_at_grains) {
        return false;  // results elsewhere, or blocks that end where an update may not be cut
      }
      named.push_back({.start = const_cast<char*>(static_cast<const char*>(in)) +
                                range_.begin * used.element_bytes,
                       .bytes = (range_.end - range_.begin) * used.element_bytes,
                       .writes = out != nullptr ? 1 : 0});
    }
    update_ = space.begin(named.data(), named.size());
    return update_ != 0;
  }

  // As ranges each of which lies together in host memory, with addresses as if all of the tensor
  // did. nullopt where that cuts it at another place than an update may be cut.
  [[nodiscard]] std::optional<std::vector<Range>> ranges(const Space& space) const {
    std::vector<std::vector<spillway_at_host_extent>> extents;
    std::vector<std::uint64_t> cuts{range_.begin, range_.end};
    for (std::size_t i = 0; i < used_.size(); ++i) {
      std::vector<spillway_at_host_extent> of(space.extents(update_, i, nullptr, 0));
      if (of.empty()) {
        return std::nullopt;  // it cannot come
      }
      (void)space.extents(update_, i, of.data(), of.size());
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

  void end(const Space& space) const { space.end(update_); }
  [[nodiscard]] const Range& range() const { return range_; }

 private:
  struct Used {
    Operand operand;
    std::uint64_t element_bytes = 0;
  };

  [[nodiscard]] Range moved(
      std::uint64_t begin, std::uint64_t end,
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
      range.tensor.*used.operand.in = start;
      if (range_.tensor.*used.operand.out != nullptr) {
        range.tensor.*used.operand.out = start;
      }
    }
    return range;
  }

  Range range_;
  std::vector<Used> used_;
  std::uint64_t update_ = 0;
};

}  // namespace

std::vector<Range> run_at_host(std::span<const spillway_near_tensor> tensors,
                               std::uint64_t element_bytes, std::uint64_t gradient_bytes,
                               const std::function<void(std::span<const Range>)>& run) {
  std::vector<Range> in_place;
  const Space* const found = space();
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
    for (std::uint64_t begin = 0; begin < tensor.elements; begin += kPartElements) {
      const Range range{tensor, begin, std::min(begin + kPartElements, tensor.elements)};
      Part part(range, element_bytes, gradient_bytes);
      if (!part.begin(*found)) {
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
