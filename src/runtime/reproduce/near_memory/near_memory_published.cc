// As printed. See near_memory_published.h.
#include "runtime/reproduce/near_memory/near_memory_published.h"

namespace spillway::reproduce {
namespace {

constexpr std::array<NearTable5Row, 2> kTable5{{
    {"CPU baseline", 228.57, 140.32},
    {"AXDIMM", 914.29, 789.38},
}};

constexpr std::array<NearTable6Row, 5> kTable6{{
    {"GPT-3 Large", {0.78, 8.01, 8.79}, {0.80, 4.60, 5.40}, 1.74, 1.63, 0.9},
    {"GPT-3 XL", {2.12, 19.31, 21.42}, {2.14, 13.28, 15.43}, 1.45, 1.39, 9.8},
    {"GPT-3 2.7B", {4.78, 43.09, 47.87}, {4.79, 30.45, 35.23}, 1.42, 1.36, 26.1},
    {"GPT-3 6.7B", {13.12, 115.17, 128.29}, {13.55, 88.17, 101.72}, 1.31, 1.26, 78.4},
    {"GPT-3 13B", {25.24, 221.62, 246.86}, {26.21, 166.25, 192.45}, 1.33, 1.28, 153.1},
}};

}  // namespace

std::span<const NearTable5Row, 2> near_table5() { return kTable5; }
std::span<const NearTable6Row, 5> near_table6() { return kTable6; }

}  // namespace spillway::reproduce
