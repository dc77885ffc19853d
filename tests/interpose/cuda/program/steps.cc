// See steps.h.
#include "steps.h"

namespace spillway::cuda::test {

void steps(const Device& device) {
  constexpr std::uint64_t kBytes = 4 << 20U;
  constexpr std::uint64_t kLayers = 8;
  constexpr std::uint64_t kSteps = 4;
  const CuStream stream = device.stream();
  std::vector<Buffer> weights;
  for (std::uint64_t i = 0; i < kLayers; ++i) {
    weights.push_back(device.allocate(kBytes, stream));
    device.fill(weights.back(), i, stream);
  }
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<Buffer> inputs;
    std::vector<Buffer> kept;
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      inputs.push_back(device.allocate(kBytes, stream));
      device.fill(inputs.back(), 100 * step + i, stream);
      kept.push_back(device.allocate(kBytes, stream));
      device.pointwise(kept.back(), inputs.back(), Reads::kKnown, stream);
      const Buffer result = device.allocate(kBytes, stream);
      Buffer filled = result;
      device.fill(filled, 0, stream);
      device.add(result, kept.back(), stream);
      device.check(weights[i], stream);
      device.free(result, stream);
    }
    for (std::uint64_t i = kLayers; i-- > 0;) {
      Buffer gradient = device.allocate(kBytes, stream);
      device.fill(gradient, 7, stream);
      device.add(gradient, kept[i], stream);
      device.check(inputs[i], stream);
      device.synchronize(stream);
      const std::vector<std::uint64_t> words = device.words_of(gradient);
      for (std::uint64_t j = 0; j < words.size(); ++j) {
        device.require(words[j] == pattern(7, j) + pattern(inputs[i].seed, j) + 1,
                       "a gradient's word");
      }
      device.free(gradient, stream);
      device.free(kept[i], stream);
      device.free(inputs[i], stream);
      device.rewrite(weights[i], 1'000 * step + i, stream);
    }
  }
  device.synchronize(stream);
}

}  // namespace spillway::cuda::test
