// `spillway trace ...` as a person calls it: output, files, exit status, one line for a mistake.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.h"
#include "trace/generate.h"
#include "trace/import_examples.h"
#include "trace/read.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TraceCommand : public test::ProgramTest {};

TEST_F(TraceCommand, GeneratesWhatTheLibraryGenerates) {
  ASSERT_EQ(run("trace generate mlp --batch-size 8 --inputs 30 --width 20 --layers 3 --classes 5 "
                "--optimizer sgd --dtype float16 --tflops 2 --bandwidth 100 -o step.swt")
                .status,
            0);
  MlpShape shape;
  shape.batch_size = 8;
  shape.inputs = 30;
  shape.width = 20;
  shape.layers = 3;
  shape.classes = 5;
  shape.training.optimizer = Optimizer::kSgd;
  shape.training.element_bytes = 2;
  shape.training.device.flops_per_s = 2e12;
  shape.training.device.bytes_per_s = 1e11;
  const Result<Trace> trace = read_trace(folder_ / "step.swt");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(*trace, generate_mlp(shape));
}

TEST_F(TraceCommand, DefaultsAreThoseOfTheShapes) {
  ASSERT_EQ(run("trace generate cnn -o cnn.swt").status, 0);
  ASSERT_EQ(run("trace generate transformer --output transformer.swt").status, 0);
  EXPECT_EQ(read_trace(folder_ / "cnn.swt").value(), generate_cnn({}));
  EXPECT_EQ(read_trace(folder_ / "transformer.swt").value(), generate_transformer({}));
}

TEST_F(TraceCommand, ConvertsThereAndBack) {
  ASSERT_EQ(run("trace generate cnn --batch-size 2 --image 32 --stages 2 -o a.json.gz").status, 0);
  ASSERT_EQ(run("trace convert a.json.gz b.swt").status, 0);
  ASSERT_EQ(run("trace convert b.swt c.json").status, 0);
  const Result<Trace> a = read_trace(folder_ / "a.json.gz");
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_EQ(*a, read_trace(folder_ / "b.swt").value());
  EXPECT_EQ(*a, read_trace(folder_ / "c.json").value());
  EXPECT_LT(std::filesystem::file_size(folder_ / "b.swt"),
            std::filesystem::file_size(folder_ / "c.json"));
}

// A trace that does not say its batch: nobody reads of a batch of size 0.
TEST_F(TraceCommand, WithoutABatchNoneIsPrinted) {
  std::ofstream(folder_ / "t.json")
      << R"({"format":"kernel-trace/1","model":"m","gpu":"g","dtype":"float32",)"
      << R"("tensors":[{"bytes":8192,"persistent":true}],"kernels":[)"
      << R"({"name":"one","ms":1.5,"reads":[0],"writes":[0]}]})";
  EXPECT_THAT(run("trace info t.json").out, HasSubstr("model         m, float32 on g\n"));
  EXPECT_THAT(run("analyze t.json").out, StartsWith("m, measured on g, float32\n"));
  EXPECT_THAT(run("simulate t.json").out, HasSubstr("\nm: 1 kernels, 1.5 ms ideal; machine "));
}

TEST_F(TraceCommand, InfoCountsTensorsAndTime) {
  std::ofstream(folder_ / "t.json")
      << R"({"format":"kernel-trace/1","model":"m","batch_size":8,"gpu":"g","dtype":"float32",)"
      << R"("tensors":[{"bytes":8192,"persistent":true},{"bytes":4096,"persistent":false},)"
      << R"({"bytes":12288,"persistent":false}],"kernels":[)"
      << R"({"name":"one","ms":1.5,"reads":[0,1],"writes":[2]},)"
      << R"({"name":"two","ms":2.5,"reads":[0,1],"writes":[0]}]})";
  const test::Outcome text = run("trace info t.json");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("m, batch size 8, float32 on g\n"));
  EXPECT_THAT(text.out, HasSubstr("2, 4 ms with all data in device memory\n"));
  EXPECT_THAT(text.out, HasSubstr("24 KiB (kernel 0 one)"));
  EXPECT_THAT(text.out, HasSubstr("scratch       1, 12 KiB\n"));

  const test::Outcome told = run("trace info --json t.json");
  EXPECT_EQ(told.status, 0);
  const auto info = nlohmann::json::parse(told.out);
  EXPECT_EQ(info["trace"], "t.json");
  EXPECT_EQ(info["kernels"], 2);
  EXPECT_EQ(info["accesses"], 6);
  EXPECT_DOUBLE_EQ(info["ideal_s"].get<double>(), 0.004);
  EXPECT_EQ(info["longest_kernel"], 1);
  EXPECT_EQ(info["largest_kernel_bytes"], 24576);
  EXPECT_EQ(info["persistent"]["bytes"], 8192);
  EXPECT_EQ(info["intermediate"]["count"], 1);
}

TEST_F(TraceCommand, SynchronizationPointsAreMadeCountedAndConverted) {
  ASSERT_EQ(run("trace generate mlp --layers 2 -o plain.swt").status, 0);
  ASSERT_EQ(run("trace generate mlp --layers 2 --sync -o sync.swt").status, 0);
  ASSERT_EQ(run("trace convert sync.swt sync.json").status, 0);
  for (const char* name : {"sync.swt", "sync.json"}) {
    EXPECT_TRUE(read_trace(folder_ / name).value().kernels.back().synchronizes);
    EXPECT_THAT(run(std::string("trace info ") + name).out, HasSubstr("\nsync points   1;"));
    const auto info = nlohmann::json::parse(run(std::string("trace info --json ") + name).out);
    EXPECT_EQ(info["synchronization_points"], 1);
  }
  EXPECT_THAT(run("trace info plain.swt").out, Not(HasSubstr("sync points")));
  EXPECT_THAT(run("trace info --json plain.swt").out, Not(HasSubstr("synchronization_points")));
}

TEST_F(TraceCommand, ImportsWhatOtherToolsWriteAndSaysWhatIsMissing) {
  std::ofstream(folder_ / "chakra.json") << test::chakra_example();
  std::ofstream(folder_ / "kineto.json") << test::kineto_host_example();
  std::ofstream(folder_ / "s.pickle", std::ios::binary) << test::snapshot_example();
  const test::Outcome text = run("trace import chakra.json -o step.swt");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              testing::StartsWith("chakra.json: a Chakra execution trace, all of the file\n"
                                  "step.swt: 5 kernels, 6 tensors\n"
                                  "What such a file does not say, and what the trace has "
                                  "instead:\n- Frees are not in the file"));
  EXPECT_EQ(read_trace(folder_ / "step.swt").value().kernels.size(), 5U);

  const test::Outcome told = run("trace import --json kineto.json -o step.json");
  EXPECT_EQ(told.status, 0) << told.err;
  const auto said = nlohmann::json::parse(told.out);
  EXPECT_EQ(said["format"], "a Kineto trace");
  EXPECT_EQ(said["iteration"], "all of the file");
  EXPECT_EQ(said["kernels"], 4);
  EXPECT_EQ(said["tensors"], 6);
  EXPECT_EQ(said["notes"].size(), 3U);
  EXPECT_EQ(run("trace import s.pickle -o step.swt").status, 0);

  expect_refusal("trace import kineto.json --iteration 7 -o x.swt", 2,
                 "kineto.json: no iteration 7; the file has 0 to 0");
  expect_refusal("trace import s.pickle --with kineto.json -o x.swt", 2,
                 "s.pickle: a memory snapshot; times from kineto.json are for a Chakra");
  expect_refusal("trace import chakra.json --with s.pickle -o x.swt", 2,
                 "s.pickle: not a Kineto trace");
  expect_refusal("trace import step.swt -o x.swt", 2, "step.swt: neither a Chakra");
  expect_refusal("trace import none.json -o x.swt", 2, "none.json");
  expect_refusal("trace import chakra.json -o x.txt", 2, "end it in .swt, .json or .json.gz");
  expect_refusal("trace info s.pickle", 2,
                 "s.pickle: byte 0: a memory snapshot; 'spillway trace import FILE -o OUT.swt'");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.swt"));
}

TEST_F(TraceCommand, BadInputIsOneLineAndStatus2) {
  std::ofstream(folder_ / "bad.json")
      << R"({"format":"kernel-trace/1","tensors":[],"kernels":[{"name":"k","ms":1,"reads":[7]}]})";
  expect_refusal("trace info bad.json", 2,
                 "bad.json: kernels[0].reads[0]: tensor 7 does not exist; the trace has 0 tensors");
  expect_refusal("trace convert bad.json x.swt", 2, "kernels[0].reads[0]");
  std::ofstream(folder_ / "text.swt") << "hello";
  expect_refusal("trace info text.swt", 2, "text.swt: byte 0: neither");
  std::ofstream(folder_ / "empty.swt") << "";
  expect_refusal("trace info empty.swt", 2, "empty.swt: the file is empty");
}

TEST_F(TraceCommand, TruncationIsStatus2) {
  ASSERT_EQ(run("trace generate mlp --layers 2 -o whole.swt").status, 0);
  std::filesystem::copy_file(folder_ / "whole.swt", folder_ / "cut.swt");
  std::filesystem::resize_file(folder_ / "cut.swt",
                               std::filesystem::file_size(folder_ / "cut.swt") - 1);
  expect_refusal("trace info cut.swt", 2, "the file is truncated");
}

TEST_F(TraceCommand, BadOptionsAreStatus2) {
  expect_refusal("trace generate mlp -o x.foo", 2, "end it in .swt, .json or .json.gz");
  expect_refusal("trace generate mlp --width 4294967296 -o x.swt", 2,
                 "must be 1 to 1125899906842624");
  expect_refusal("trace generate mlp --width 0 -o x.swt", 2, "--width");
  expect_refusal("trace generate mlp --width -5 -o x.swt", 2, "--width");
  expect_refusal("trace generate cnn --workspace 12xx -o x.swt", 2, "'12xx' has an unknown unit");
  expect_refusal("trace generate mlp --optimizer magic -o x.swt", 2, "magic");
  expect_refusal("trace generate mlp", 2, "--output");
  expect_refusal("trace generate", 2, "'generate' wants one of mlp, cnn, transformer behind it; ");
  expect_refusal("trace info", 2, "trace");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.swt"));
}

TEST_F(TraceCommand, RefusalsOfTheSystemAreStatus1) {
  expect_refusal("trace info .", 1, "cannot read");
  expect_refusal("trace generate mlp -o nowhere/x.swt", 1,
                 "nowhere/x.swt: cannot open for writing");
}

TEST_F(TraceCommand, HelpTeachesWithExamples) {
  for (const char* command : {"trace --help", "trace generate --help"}) {
    const test::Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Examples:\n"));
  }
}

}  // namespace
}  // namespace spillway
