// See address_use.h.
#include "interpose/cuda/operands/address_use.h"

#include <algorithm>
#include <array>
#include <span>

namespace spillway::cuda {
namespace {

constexpr AddressUse kNone = {.stores = false, .reaches = false};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool begins(std::string_view symbol, std::span<const std::string_view> with) {
  return std::any_of(with.begin(), with.end(),
                     [symbol](std::string_view it) { return symbol.starts_with(it); });
}

template <typename Is>
bool any_after(std::string_view text, std::string_view part, const Is& is) {
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    if (is(text.substr(0, at), text.substr(at + part.size()))) {
      return true;
    }
  }
  return false;
}

// Whether it makes integers of 64 bits, as its functor's types or its lambda's parameters say: only
// those can be addresses. Kernels that take indices have that type later among their own, or take
// places as well.
bool makes_wide_integers(std::string_view in_words) {
  const auto is_wide = [](std::string_view type) {
    return type.starts_with("long") || type.starts_with("unsigned long");
  };
  return any_after(in_words, "<",
                   [&](std::string_view before, std::string_view after) {
                     return is_wide(after) && !before.ends_with("ArrayRef");
                   }) ||
         any_after(in_words, "lambda(", [&](std::string_view /*before*/, std::string_view after) {
           const std::string_view list = after.substr(0, after.find(')'));
           return !has(list, "*") && (is_wide(list) || has(list, " long"));
         });
}

// PyTorch's kernels use the places of tensors and make values of values, which may be addresses
// that the program has computed with: those stand in a functor.
AddressUse of_pytorch(std::string_view symbol, std::string_view in_words) {
  // (int count, functor, ...).
  constexpr std::array<std::string_view, 3> kWithFunctor = {
      "_ZN2at6native29vectorized_elementwise_kernelI",
      "_ZN2at6native27unrolled_elementwise_kernelI",
      "_ZN2at6native29elementwise_kernel_with_indexI"};
  AddressUse use = kNone;
  if (has(symbol, "_grouped_")) {  // fills arrays of pointers for cuBLAS
    use.stores = true;
  } else if (makes_wide_integers(in_words)) {
    if (begins(symbol, kWithFunctor)) {
      use.values = 1;
    } else {
      use.stores = true;
    }
  }
  return use;
}

bool is_of_pytorch(std::string_view symbol) {
  // With a functor of PyTorch's, or in a namespace that is PyTorch's own.
  constexpr std::array<std::string_view, 2> kAnybodys = {"_ZN3cub", "_ZN6thrust"};
  constexpr std::string_view kNative = "2at6native";
  return symbol.starts_with("_ZN2at6native") || symbol.starts_with("_ZN14at_cuda_detail") ||
         (begins(symbol, kAnybodys) && has(symbol, kNative));
}

bool is_attention(std::string_view symbol) {
  constexpr std::array<std::string_view, 3> kFlash = {"_ZN13pytorch_flash", "_ZN5flash",
                                                      "_ZN22PyTorchMemEffAttention"};
  return begins(symbol, kFlash) ||
         (has(symbol, "fmha_cutlass") && has(symbol, "PyTorchMemEffAttention"));
}

// torch.compile's, which have the kind of their loop in their names.
bool is_inductors(std::string_view symbol) {
  constexpr std::array<std::string_view, 7> kKinds = {"triton_poi_", "triton_red_", "triton_per_",
                                                      "triton_tem_", "triton_for_", "triton_spl_",
                                                      "triton_unk_"};
  return begins(symbol, kKinds);
}

// cuBLAS's. Many products at once are said by arrays of pointers.
bool is_of_cublas(std::string_view symbol) {
  constexpr std::array<std::string_view, 6> kNames = {"nvjet_",       "ampere_", "turing_",
                                                      "_ZN8cublasLt", "volta_",  "maxwell_"};
  return begins(symbol, kNames) || (symbol.starts_with("sm") && has(symbol, "_xmma_")) ||
         (symbol.starts_with("_ZN7cutlass7Kernel2I") && has(symbol, "cutlass_")) ||
         symbol.starts_with("cutlass_");
}

// The first name in what the compiler has made of it: the outermost namespace, or the function.
std::string_view first_name(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) {
    return symbol;
  }
  symbol.remove_prefix(symbol.starts_with("_ZN") ? 3 : 2);
  std::size_t length = 0;
  while (!symbol.empty() && symbol.front() >= '0' && symbol.front() <= '9' &&
         length <= symbol.size()) {
    length = 10 * length + static_cast<std::size_t>(symbol.front() - '0');
    symbol.remove_prefix(1);
  }
  return symbol.substr(0, length);
}

// Those that its libraries share with cuBLAS have its name at their end.
bool is_of_cudnn(std::string_view symbol) {
  const std::string_view first = first_name(symbol);
  return symbol.starts_with("cudnn_") || symbol.starts_with("_ZN5cudnn") ||
         (symbol.starts_with("_ZN") && first.ends_with("cudnn") &&
          (first.starts_with("cask") || first.starts_with("cutlass"))) ||
         (!symbol.starts_with("_Z") && is_of_cublas(symbol) && has(symbol, "cudnn"));
}

bool is_of_nccl(std::string_view symbol) {
  const std::string_view first = first_name(symbol);
  return first.starts_with("ncclDevKernel") || first.starts_with("ncclKernel");
}

}  // namespace

// After what it has fused, with numbers behind it.
bool may_be_of_xla(std::string_view symbol) {
  const std::size_t end = symbol.find_last_not_of("_0123456789");
  const std::string_view name = symbol.substr(0, end == std::string_view::npos ? 0 : end + 1);
  return !symbol.starts_with("_Z") && (name == "fusion" || name.ends_with("_fusion") ||
                                       name == "gemm_fusion_dot" || name.starts_with("wrapped_"));
}

AddressUse address_use(std::string_view symbol, std::string_view in_words, const WhoIsLoaded& who) {
  if (is_of_pytorch(symbol)) {
    return of_pytorch(symbol, in_words);
  }
  if (is_attention(symbol) || is_inductors(symbol) || is_of_cudnn(symbol) || is_of_nccl(symbol) ||
      (who.xla && may_be_of_xla(symbol))) {
    return kNone;
  }
  return is_of_cublas(symbol) ? AddressUse{.stores = false, .reaches = true} : AddressUse{};
}

}  // namespace spillway::cuda
