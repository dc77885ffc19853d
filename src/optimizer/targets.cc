#include "optimizer/targets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace spillway::optimizer {
#if defined(__x86_64__)
namespace {

// clang 16 has no such name for __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace
#endif

// What Highway's targets of these names are compiled with.
Target this_target() {
#if defined(__x86_64__)
  static const Target target = [] {
    if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0 ||
        __builtin_cpu_supports("bmi") == 0 || __builtin_cpu_supports("bmi2") == 0 || !has_f16c()) {
      return Target::kNone;
    }
    const bool wide =
        __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0;
    return wide ? Target::kAvx512 : Target::kAvx2;
  }();
  return target;
#else
  return Target::kNone;
#endif
}

}  // namespace spillway::optimizer
