// Whether two declarations are one to the driver, of a call, a value, or a member of a structure:
// ours, and those of CUDA's header, which must have been included. Test helper.
#pragma once

#include <cstddef>
#include <type_traits>

#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// Two parameters are the same to the driver if they travel the same way. What a pointer points to
// counts as well, where both sides define it; what is void to us we only pass on.
template <typename T, typename = void>
constexpr std::size_t kPointeeBytes = 0;
template <typename T>
constexpr std::size_t kPointeeBytes<T, std::void_t<decltype(sizeof(T))>> =
    std::is_void_v<T> || std::is_function_v<T> ? 0 : sizeof(T);

template <typename Ours, typename Theirs>
constexpr bool same_parameter() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    return std::is_const_v<A> == std::is_const_v<B> && std::is_void_v<A> >= std::is_void_v<B> &&
           std::is_pointer_v<A> == std::is_pointer_v<B> &&
           (kPointeeBytes<A> == 0 || kPointeeBytes<B> == 0 || kPointeeBytes<A> == kPointeeBytes<B>);
  } else {
    return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
           (std::is_enum_v<Ours> || std::is_signed_v<Ours> == std::is_signed_v<Theirs>);
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename... Ours, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameCall<CuResult(Ours...), CUresult(Theirs...)>
    : std::bool_constant<(same_parameter<Ours, Theirs>() && ...)> {};

}  // namespace spillway::cuda

// Of values, structures, and members, each named in its structure.
#define SPILLWAY_EQUAL(ours, theirs) \
  static_assert(static_cast<unsigned long long>(ours) == static_cast<unsigned long long>(theirs))

#define SPILLWAY_SAME_SIZE(Ours, Theirs) static_assert(sizeof(Ours) == sizeof(Theirs))

#define SPILLWAY_SAME_PLACE(Ours, ours, Theirs, theirs)             \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs) && \
                sizeof(Ours::ours) == sizeof(Theirs::theirs))
