#include "optimizer/targets.h"

namespace spillway::optimizer {

// What Highway's targets of these names are compiled with.
Target this_target() {
#if defined(__x86_64__)
  static const Target target = [] {
    if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0 ||
        __builtin_cpu_supports("bmi") == 0 || __builtin_cpu_supports("bmi2") == 0) {
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
