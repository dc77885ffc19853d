// The shapes of generated networks as options. Layer: cli.
#include "cli/trace/trace_generate_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/trace/trace_output.h"
#include "trace/generate.h"

namespace spillway {
namespace {

// The most that a shape option takes: larger products saturate and are refused by validation.
constexpr std::uint64_t kMostSize = 1ULL << 32U;
// Layers, stages and blocks are kernels; this many are generated in about a second.
constexpr std::uint64_t kMostLayers = 10'000;

void add_size(CLI::App* command, const std::string& name, std::uint64_t& value,
              const std::string& text, std::uint64_t least = 1, std::uint64_t most = kMostSize) {
  command->add_option(name, value, text)
      ->check(CLI::Range(least, most))
      ->type_name("N")
      ->capture_default_str();
}

// Options that every network has; TFLOP/s and GB/s as people write them.
struct Common {
  std::string output;
  std::string optimizer;
  std::string dtype = "float32";
  double tflops_per_s = 0;
  double gb_per_s = 0;
};

void add_common(CLI::App* command, Common& common, TrainingOptions& training) {
  common.tflops_per_s = training.device.flops_per_s / 1e12;
  common.gb_per_s = training.device.bytes_per_s / 1e9;
  command->add_option("-o,--output", common.output, "File to write: .swt, .json or .json.gz")
      ->required()
      ->type_name("FILE");
  common.optimizer = training.optimizer == Optimizer::kAdam ? "adam" : "momentum";
  command->add_option("--optimizer", common.optimizer, "What updates the parameters")
      ->check(CLI::IsMember(std::vector<std::string>{"sgd", "momentum", "adam"}))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--dtype", common.dtype, "Type of parameters and activations")
      ->check(CLI::IsMember(std::vector<std::string>{"float32", "float16"}))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--sync", training.synchronizes,
                    "The host waits for the step's last kernel, as to print the loss");
  command->add_option("--device", training.device.name, "Name of the device, for the record")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--tflops", common.tflops_per_s, "TFLOP/s that kernels attain")
      ->check(CLI::Range(1e-6, 1e9))
      ->type_name("X")
      ->capture_default_str();
  command->add_option("--bandwidth", common.gb_per_s, "GB/s of device memory that kernels attain")
      ->check(CLI::Range(1e-3, 1e9))
      ->type_name("X")
      ->capture_default_str();
}

TrainingOptions with_options(TrainingOptions training, const Common& common) {
  training.optimizer = common.optimizer == "sgd"        ? Optimizer::kSgd
                       : common.optimizer == "momentum" ? Optimizer::kMomentum
                                                        : Optimizer::kAdam;
  training.element_bytes = common.dtype == "float16" ? 2 : 4;
  training.device.flops_per_s = common.tflops_per_s * 1e12;
  training.device.bytes_per_s = common.gb_per_s * 1e9;
  return training;
}

template <typename Shape>
struct Request {
  Shape shape;
  Common common;
};

// The command of one network: its own options from `add_options`, then the common ones.
template <typename Shape, typename AddOptions>
void add_network(CLI::App* generate, const std::string& name, const std::string& text,
                 Trace (*make)(const Shape&), const std::function<void(const Status&)>& finish,
                 AddOptions add_options) {
  auto request = std::make_shared<Request<Shape>>();
  CLI::App* command = generate->add_subcommand(name, text);
  add_size(command, "--batch-size", request->shape.batch_size, "Samples in a batch");
  add_options(command, request->shape);
  add_common(command, request->common, request->shape.training);
  command->callback([request, make, finish] {
    request->shape.training = with_options(request->shape.training, request->common);
    finish(write_by_name(make(request->shape), request->common.output));
  });
}

}  // namespace

void add_trace_generate_command(CLI::App& trace, const std::function<void(const Status&)>& finish) {
  CLI::App* generate = trace.add_subcommand(
      "generate", "Make up the trace of a training step: forward, loss, backward, optimizer");
  generate->require_subcommand(1);
  generate->footer(
      "Kernel times follow from FLOPs and bytes at the rates of --tflops and --bandwidth.\n"
      "The same options give the same file.\n\n"
      "Examples:\n"
      "  spillway trace generate mlp --layers 16 --width 8192 -o mlp.swt\n"
      "  spillway trace generate cnn --batch-size 256 --blocks 8 -o cnn.swt\n"
      "  spillway trace generate transformer --layers 24 --width 1024 --heads 16 \\\n"
      "    --feed-forward 4096 -o bert-large.swt");

  add_network<MlpShape>(generate, "mlp", "Fully connected layers with ReLU", generate_mlp, finish,
                        [](CLI::App* command, MlpShape& shape) {
                          add_size(command, "--inputs", shape.inputs, "Features of a sample");
                          add_size(command, "--width", shape.width, "Units of a hidden layer");
                          add_size(command, "--layers", shape.layers, "Hidden layers", 0,
                                   kMostLayers);
                          add_size(command, "--classes", shape.classes, "Classes to tell apart");
                        });
  add_network<CnnShape>(
      generate, "cnn", "A residual network of bottleneck blocks, as ResNet", generate_cnn, finish,
      [](CLI::App* command, CnnShape& shape) {
        add_size(command, "--image", shape.image, "Pixels a side of an image");
        add_size(command, "--channels", shape.channels, "Channels of the first stage");
        add_size(command, "--stages", shape.stages, "Stages, each of half the side", 1, 16);
        add_size(command, "--blocks", shape.blocks, "Blocks of a stage", 1, kMostLayers / 16);
        add_size(command, "--classes", shape.classes, "Classes to tell apart");
        command
            ->add_option_function<std::string>(
                "--workspace",
                [&shape](const std::string& text) {
                  const Result<Bytes> bytes = parse_bytes(text);
                  if (!bytes) {
                    throw CLI::ValidationError("--workspace", bytes.error().message);
                  }
                  shape.workspace_limit_bytes = *bytes;
                },
                "Most work space of one convolution")
            ->type_name("SIZE")
            ->default_str("1GiB");
      });
  add_network<TransformerShape>(
      generate, "transformer", "An encoder with a prediction of every token, as BERT",
      generate_transformer, finish, [](CLI::App* command, TransformerShape& shape) {
        add_size(command, "--sequence", shape.sequence, "Tokens of a sample");
        add_size(command, "--width", shape.width, "Features of a token");
        add_size(command, "--heads", shape.heads, "Attention heads");
        add_size(command, "--layers", shape.layers, "Encoder layers", 1, kMostLayers);
        add_size(command, "--feed-forward", shape.feed_forward, "Units between the two layers");
        add_size(command, "--vocabulary", shape.vocabulary, "Tokens there are");
      });
}

}  // namespace spillway
