// Training iterations of networks of any size, made up but shaped like the real ones: for tests,
// demos and measurements that must not depend on recorded traces. Layer: trace.
//
// Every generator emits a full step: forward, loss, backward in reverse order with gradients summed
// where paths meet, and an optimizer update of every parameter with its state as persistent
// tensors. What backward needs again is kept from forward. A kernel takes the time that its
// floating-point operations or its operands' bytes need at the stated rates, whichever is longer,
// plus a launch. The same shape gives the same trace, everywhere.
//
// Sizes that leave the limits of a trace (trace/limits.h) saturate instead of overflowing; the
// result then fails validate_trace. A dimension of 0 gives a trace that fails it too.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "trace/trace.h"

namespace spillway {

// What kernels attain, not what the data sheet promises. The defaults are an A100-40GB in FP32: 70
// % of 19.5 TFLOP/s and 80 % of 1555 GB/s.
struct DeviceRates {
  std::string name = "A100-40GB";
  double flops_per_s = 13.65e12;
  double bytes_per_s = 1.244e12;
  TimeNs launch_ns = 3 * kNsPerUs;
};

// How many persistent tensors of a parameter's size the update reads and writes besides it.
enum class Optimizer : std::uint8_t {
  kSgd,       // none
  kMomentum,  // velocity
  kAdam,      // first and second moment
};

struct TrainingOptions {
  Optimizer optimizer = Optimizer::kAdam;
  std::uint32_t element_bytes = 4;  // 4: float32, 2: float16
  DeviceRates device = {};
  bool synchronizes = false;  // the host waits for the step's last kernel
};

// Fully connected layers with ReLU between them and a softmax classifier.
struct MlpShape {
  std::uint64_t batch_size = 256;
  std::uint64_t inputs = 1024;
  std::uint64_t width = 4096;  // of every hidden layer
  std::uint64_t layers = 8;    // hidden layers
  std::uint64_t classes = 1000;
  TrainingOptions training = {};
};

// A residual network of bottleneck blocks (1x1, 3x3, 1x1 convolution, each with batch
// normalization) behind a 7x7 stem, as ResNet-50 and its deeper kin. 3x3 and 7x7 convolutions use
// work space.
struct CnnShape {
  std::uint64_t batch_size = 64;
  std::uint64_t image = 224;    // pixels a side, 3 channels
  std::uint64_t channels = 64;  // of the stem; doubles with every stage, blocks end with 4 times
  std::uint64_t stages = 4;     // every stage after the first halves the side
  std::uint64_t blocks = 3;     // a stage
  std::uint64_t classes = 1000;
  Bytes workspace_limit_bytes = kGiB;  // of one convolution
  TrainingOptions training = {.optimizer = Optimizer::kMomentum, .element_bytes = 4, .device = {}};
};

// An encoder as BERT: embeddings, blocks of multi-head attention and feed-forward with residuals,
// layer normalization and dropout, and a prediction of every token.
struct TransformerShape {
  std::uint64_t batch_size = 32;
  std::uint64_t sequence = 512;
  std::uint64_t width = 768;
  std::uint64_t heads = 12;
  std::uint64_t layers = 12;
  std::uint64_t feed_forward = 3072;
  std::uint64_t vocabulary = 30522;
  TrainingOptions training = {};
};

// Image networks as their papers have them, 224 pixels a side and 1,000 classes, as TensorFlow runs
// them: biases, ReLU and sums of a residual network in place, so that each convolution keeps one
// tensor. Without normalization and dropout. 3x3 convolutions at stride 1 multiply 2.25 times less
// than their size says (Winograd, F(2x2, 3x3)). Where they have 384 channels and more on both
// sides, as in AlexNet, they have work space of 2.25 times their input and output, up to 4 GiB:
// AutoVM's figure 6.2 has 2.6 times for AlexNet's fourth, and what VGG-19 needs leaves none for its
// first.
enum class ImageNetwork : std::uint8_t {
  kAlexNet,    // Krizhevsky 2012, one tower: 96, 256, 384, 384, 256 channels
  kVgg19,      // Simonyan 2014
  kResNet152,  // He 2016
};
struct ImageShape {
  ImageNetwork network = ImageNetwork::kVgg19;
  std::uint64_t batch_size = 64;
  TrainingOptions training = {};
};

[[nodiscard]] Trace generate_image_network(const ImageShape& shape);
[[nodiscard]] Trace generate_mlp(const MlpShape& shape);
[[nodiscard]] Trace generate_cnn(const CnnShape& shape);
[[nodiscard]] Trace generate_transformer(const TransformerShape& shape);

}  // namespace spillway
