// System calls that no function of any library stands in front of, `syscall` included, which is
// ours here (system_calls.cc). Layer: interpose, host.
#pragma once

#include <cstddef>

namespace spillway::preload {

// A number or a pointer, as the kernel takes it.
template <typename Argument>
long kernel_word(Argument* pointer) {
  return reinterpret_cast<long>(pointer);  // NOLINT(*-reinterpret-cast)
}
inline long kernel_word(std::nullptr_t) { return 0; }
template <typename Argument>
long kernel_word(Argument number) {
  return static_cast<long>(number);
}

}  // namespace spillway::preload

// As the C library's syscall: -1, and errno set, for an error. Safe in signal handlers.
extern "C" long spillway_bare_call(long number, long first, long second, long third, long fourth,
                                   long fifth, long sixth);

namespace spillway::preload {

template <typename... Arguments>
long bare_call(long number, Arguments... arguments) {
  static_assert(sizeof...(arguments) <= 6);
  const long words[6] = {kernel_word(arguments)...};
  return spillway_bare_call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // namespace spillway::preload
