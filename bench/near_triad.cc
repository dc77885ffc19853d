// STREAM's triad, a = b + s * c, for bench/near_adam.py, which compiles it: what the memory
// carries, in the same process as what is compared with it. Where `a` is `b` the stores are plain
// ones.
#include <immintrin.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace {

// Past the caches, so that what STREAM counts, three arrays, is what is moved.
[[gnu::target("avx2")]] void sum_elsewhere(float* a, const float* b, const float* c, float s,
                                           std::size_t begin, std::size_t end) {
  const __m256 factor = _mm256_set1_ps(s);
  for (std::size_t i = begin; i < end; i += 8) {
    const __m256 product = _mm256_mul_ps(factor, _mm256_load_ps(c + i));
    _mm256_stream_ps(a + i, _mm256_add_ps(_mm256_load_ps(b + i), product));
  }
  _mm_sfence();
}

[[gnu::target("avx2")]] void sum_in_place(float* a, const float* /*b*/, const float* c, float s,
                                          std::size_t begin, std::size_t end) {
  const __m256 factor = _mm256_set1_ps(s);
  for (std::size_t i = begin; i < end; i += 8) {
    const __m256 product = _mm256_mul_ps(factor, _mm256_load_ps(c + i));
    _mm256_store_ps(a + i, _mm256_add_ps(_mm256_load_ps(a + i), product));
  }
}

}  // namespace

// `count` floats, a multiple of 8, of each array; they are aligned to 32 bytes.
extern "C" void near_triad(float* a, const float* b, const float* c, float s, std::size_t count,
                           unsigned threads) {
  const auto part = a == b ? sum_in_place : sum_elsewhere;
  const auto bound = [&](unsigned i) { return count / 8 * i / threads * 8; };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) {
    others.emplace_back(part, a, b, c, s, bound(i), bound(i + 1));
  }
  part(a, b, c, s, bound(0), bound(1));
  for (std::thread& other : others) other.join();
}
