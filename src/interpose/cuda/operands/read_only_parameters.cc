// See read_only_parameters.h.
#include "interpose/cuda/operands/read_only_parameters.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace spillway::cuda {

namespace {

// What follows the kernel's name: perhaps a number (Li4E), then the functor's type. Those of
// at::native, and local ones of its functions, begin with what stands for that namespace.
bool may_be_pytorchs(std::string_view arguments) {
  if (arguments.starts_with("Li")) {
    arguments.remove_prefix(std::min(arguments.find('E'), arguments.size() - 1) + 1);
  }
  arguments.remove_prefix(std::min(arguments.find_first_not_of('Z'), arguments.size()));
  return arguments.starts_with("NS0_");
}

}  // namespace

std::optional<ReadOnlyParameters> known_reads(std::string_view symbol) {
  // As the Itanium C++ ABI writes them: at::native::NAME<...>(int, functor, array, ...).
  constexpr std::array<std::string_view, 2> kKernels{
      "_ZN2at6native29vectorized_elementwise_kernelI",
      "_ZN2at6native27unrolled_elementwise_kernelI"};
  constexpr std::string_view kArray = "St5arrayIPcLm";  // std::array<char*, N>
  std::string_view functor;
  for (const std::string_view kernel : kKernels) {
    if (symbol.starts_with(kernel)) {
      functor = symbol.substr(kernel.size());
    }
  }
  const std::size_t at = symbol.rfind(kArray);
  if (functor.empty() || at == std::string_view::npos || symbol.find(kArray) != at) {
    return std::nullopt;
  }
  const std::string_view number = symbol.substr(at + kArray.size());
  ReadOnlyParameters reads{.parameter = 2};
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), reads.pointers);
  if (error != std::errc() ||
      !std::string_view(end, number.data() + number.size()).starts_with("EE")) {
    return std::nullopt;
  }
  reads.of_pytorch = may_be_pytorchs(functor);
  return reads;
}

}  // namespace spillway::cuda
