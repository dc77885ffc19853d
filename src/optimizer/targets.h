// Which processors the kernels are compiled for: those with fused multiply-add. To be included
// before Highway, whose headers are used without its library: the choice at run time is ours.
// Layer: optimizer.
#pragma once

#define HWY_DISABLE_PCLMUL_AES  // not used, so not asked for
#define HWY_DISABLE_F16C
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#define HWY_IS_DEBUG_BUILD 0  // checks that need the library

namespace spillway::optimizer {

enum class Target { kNone, kAvx2, kAvx512 };
[[nodiscard]] Target this_target();

}  // namespace spillway::optimizer
