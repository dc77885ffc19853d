// STREAM's triad, a = b + s * c, for bench/near_adam.py: what the memory carries, in the same process as
// what is compared with it. Stores go past the caches, as they do in STREAM compiled for that, so what
// STREAM counts, three arrays, is what is moved.
#include <immintrin.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace {

[[gnu::target("avx2")]] void part(float* a, const float* b, const float* c, float s, std::size_t begin,
                                  std::size_t end) {
  const __m256 factor = _mm256_set1_ps(s);
  for (std::size_t i = begin; i < end; i += 8) {
    const __m256 product = _mm256_mul_ps(factor, _mm256_load_ps(c + i));
    _mm256_stream_ps(a + i, _mm256_add_ps(_mm256_load_ps(b + i), product));
  }
  _mm_sfence();
}

}  // namespace

// `count` floats of each, aligned to 32 bytes and so many for each thread.
extern "C" void near_triad(float* a, const float* b, const float* c, float s, std::size_t count,
                           unsigned threads) {
  std::vector<std::thread> others;
  const auto bound = [&](unsigned i) { return count / 8 * i / threads * 8; };
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(part, a, b, c, s, bound(i), bound(i + 1));
  part(a, b, c, s, bound(0), bound(1));
  for (std::thread& other : others) other.join();
}
