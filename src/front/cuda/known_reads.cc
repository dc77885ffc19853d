// See known_reads.h.
#include "front/cuda/known_reads.h"

#include <array>
#include <charconv>

namespace spillway::cuda {

std::optional<KnownReads> known_reads(std::string_view symbol) {
  // As the Itanium C++ ABI writes them: at::native::NAME<...>(int, functor, array, ...).
  constexpr std::array<std::string_view, 2> kKernels{
      "_ZN2at6native29vectorized_elementwise_kernelI",
      "_ZN2at6native27unrolled_elementwise_kernelI"};
  constexpr std::string_view kArray = "St5arrayIPcLm";  // std::array<char*, N>
  bool ours = false;
  for (const std::string_view kernel : kKernels) {
    ours |= symbol.starts_with(kernel);
  }
  const std::size_t at = symbol.rfind(kArray);
  if (!ours || at == std::string_view::npos || symbol.find(kArray) != at) {
    return std::nullopt;
  }
  const std::string_view number = symbol.substr(at + kArray.size());
  KnownReads reads{.parameter = 2};
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), reads.pointers);
  if (error != std::errc() ||
      !std::string_view(end, number.data() + number.size()).starts_with("EE")) {
    return std::nullopt;
  }
  return reads;
}

}  // namespace spillway::cuda
