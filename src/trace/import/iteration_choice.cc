// Marks of iterations. Layer: trace.
#include "trace/import/iteration_choice.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace spillway {
namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep#";
constexpr std::size_t kMaxMarks = std::size_t{1} << 20U;
constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Status IterationChoice::annotation(std::string_view name, std::uint64_t begin, std::uint64_t end) {
  if (steps_.size() + optimizer_ends_.size() >= kMaxMarks) {
    return make_error(ErrorCode::kInvalidInput, "more than {} marks of iterations", kMaxMarks);
  }
  if (is_optimizer_step(name)) {
    optimizer_ends_.push_back(end);
  } else if (name.starts_with(kProfilerStep)) {
    name.remove_prefix(kProfilerStep.size());
    std::uint64_t number = 0;
    const auto [behind, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (wrong == std::errc{} && behind == name.data() + name.size()) {
      steps_.push_back({number, begin, end});
    }
  }
  return {};
}

Result<IterationRange> IterationChoice::choose(std::optional<std::uint64_t> wanted) const {
  if (!steps_.empty()) {
    const auto by_number = [](const Step& a, const Step& b) { return a.number < b.number; };
    const auto [first, last] = std::minmax_element(steps_.begin(), steps_.end(), by_number);
    const std::uint64_t number = wanted.value_or(last->number);
    const auto step = std::find_if(steps_.begin(), steps_.end(),
                                   [number](const Step& s) { return s.number == number; });
    if (step == steps_.end()) {
      return make_error(ErrorCode::kInvalidInput,
                        "no ProfilerStep#{}; the file has ProfilerStep#{} to ProfilerStep#{}",
                        number, first->number, last->number);
    }
    return IterationRange{step->begin, step->end, fmt::format("ProfilerStep#{}", number)};
  }
  std::vector<std::uint64_t> ends = optimizer_ends_;
  std::sort(ends.begin(), ends.end());
  const std::size_t count = std::max<std::size_t>(ends.size(), 1);
  const std::uint64_t number = wanted.value_or(count - 1);
  if (number >= count) {
    return make_error(ErrorCode::kInvalidInput, "no iteration {}; the file has 0 to {}", number,
                      count - 1);
  }
  if (count == 1) {
    return IterationRange{0, kEnd, "all of the file"};
  }
  return IterationRange{
      number == 0 ? 0 : ends[number - 1], ends[number],
      fmt::format("iteration {} of 0 to {}, each up to an optimizer's step", number, count - 1)};
}

}  // namespace spillway
