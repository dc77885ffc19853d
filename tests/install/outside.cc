// A program in C++ that somebody else wrote against an installed libspillway. Exit status 77 where
// the machine cannot run Spillway.
#include <cstdio>
#include <numeric>
#include <spillway/spillway.hpp>
#include <vector>

int main() {
  try {
    spillway::Options options;
    options.deviceBytes = 16 << 20;
    options.hostBytes = 64 << 20;
    const spillway::Space space(options);
    std::vector<spillway::Buffer<long>> buffers;
    long sum = 0;
    for (long i = 0; i < 4; ++i) {
      auto& buffer = buffers.emplace_back(space, std::size_t{1} << 20);
      const spillway::Launch launch(space, "fill", {spillway::overwrite(buffer)});
      std::fill(buffer.begin(), buffer.end(), i + 1);
    }
    for (auto& buffer : buffers) {
      sum = std::accumulate(buffer.begin(), buffer.end(), sum);
    }
    std::printf("%ld\n", sum >> 20);
    return 0;
  } catch (const spillway::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == spillwayErrorNotSupported ? 77 : 1;
  }
}
