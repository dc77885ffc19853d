// `spillway trace ...` as a person calls it: output, files, exit status, one line for a mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "trace/generate.h"
#include "trace/read.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class TraceCommand : public testing::Test {
 protected:
  struct Outcome {
    int status = -1;
    std::string output;  // standard output and standard error
  };

  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              fmt::format("{}-{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                          getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }

  // In the folder of the test.
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    Outcome outcome;
    const std::string command =
        "cd '" + folder_.string() + "' && '" + SPILLWAY_PROGRAM + "' trace " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
      ADD_FAILURE() << "cannot run " << command;
      return outcome;
    }
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      outcome.output += static_cast<char>(c);
    }
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }

  void expect_refusal(const std::string& arguments, int status, const std::string& message) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << arguments;
    EXPECT_THAT(outcome.output, StartsWith("spillway: "));
    EXPECT_THAT(outcome.output, HasSubstr(message));
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(TraceCommand, GeneratesWhatTheLibraryGenerates) {
  ASSERT_EQ(run("generate mlp --batch-size 8 --inputs 30 --width 20 --layers 3 --classes 5 "
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
  const Result<Trace> trace = read_trace(std::filesystem::path(file("step.swt")));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(*trace, generate_mlp(shape));
}

TEST_F(TraceCommand, DefaultsAreThoseOfTheShapes) {
  ASSERT_EQ(run("generate cnn -o cnn.swt").status, 0);
  ASSERT_EQ(run("generate transformer --output transformer.swt").status, 0);
  EXPECT_EQ(read_trace(std::filesystem::path(file("cnn.swt"))).value(), generate_cnn({}));
  EXPECT_EQ(read_trace(std::filesystem::path(file("transformer.swt"))).value(),
            generate_transformer({}));
}

TEST_F(TraceCommand, ConvertsThereAndBack) {
  ASSERT_EQ(run("generate cnn --batch-size 2 --image 32 --stages 2 -o a.json.gz").status, 0);
  ASSERT_EQ(run("convert a.json.gz b.swt").status, 0);
  ASSERT_EQ(run("convert b.swt c.json").status, 0);
  const Result<Trace> a = read_trace(std::filesystem::path(file("a.json.gz")));
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_EQ(*a, read_trace(std::filesystem::path(file("b.swt"))).value());
  EXPECT_EQ(*a, read_trace(std::filesystem::path(file("c.json"))).value());
  EXPECT_LT(std::filesystem::file_size(file("b.swt")), std::filesystem::file_size(file("c.json")));
}

TEST_F(TraceCommand, InfoCountsTensorsAndTime) {
  std::ofstream(file("t.json"))
      << R"({"format":"kernel-trace/1","model":"m","batch_size":8,"gpu":"g","dtype":"float32",)"
      << R"("tensors":[{"bytes":8192,"persistent":true},{"bytes":4096,"persistent":false},)"
      << R"({"bytes":12288,"persistent":false}],"kernels":[)"
      << R"({"name":"one","ms":1.5,"reads":[0,1],"writes":[2]},)"
      << R"({"name":"two","ms":2.5,"reads":[0,1],"writes":[0]}]})";
  const Outcome text = run("info t.json");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.output, HasSubstr("m, batch size 8, float32 on g\n"));
  EXPECT_THAT(text.output, HasSubstr("2, 4 ms with all data in device memory\n"));
  EXPECT_THAT(text.output, HasSubstr("24 KiB (kernel 0 one)"));
  EXPECT_THAT(text.output, HasSubstr("scratch       1, 12 KiB\n"));

  const Outcome json = run("info --json t.json");
  EXPECT_EQ(json.status, 0);
  const auto info = nlohmann::json::parse(json.output);
  EXPECT_EQ(info["trace"], "t.json");
  EXPECT_EQ(info["kernels"], 2);
  EXPECT_EQ(info["accesses"], 6);
  EXPECT_DOUBLE_EQ(info["ideal_s"].get<double>(), 0.004);
  EXPECT_EQ(info["longest_kernel"], 1);
  EXPECT_EQ(info["largest_kernel_bytes"], 24576);
  EXPECT_EQ(info["persistent"]["bytes"], 8192);
  EXPECT_EQ(info["intermediate"]["count"], 1);
}

TEST_F(TraceCommand, BadInputIsOneLineAndStatus2) {
  std::ofstream(file("bad.json"))
      << R"({"format":"kernel-trace/1","tensors":[],"kernels":[{"name":"k","ms":1,"reads":[7]}]})";
  expect_refusal("info bad.json", 2,
                 "bad.json: kernels[0].reads[0]: tensor 7 does not exist; the trace has 0 tensors");
  expect_refusal("convert bad.json x.swt", 2, "kernels[0].reads[0]");
  std::ofstream(file("text.swt")) << "hello";
  expect_refusal("info text.swt", 2, "text.swt: byte 0: neither");
  std::ofstream(file("empty.swt")) << "";
  expect_refusal("info empty.swt", 2, "empty.swt: the file is empty");
}

TEST_F(TraceCommand, TruncationIsStatus2) {
  ASSERT_EQ(run("generate mlp --layers 2 -o whole.swt").status, 0);
  std::filesystem::copy_file(file("whole.swt"), file("cut.swt"));
  std::filesystem::resize_file(file("cut.swt"), std::filesystem::file_size(file("cut.swt")) - 1);
  expect_refusal("info cut.swt", 2, "the file is truncated");
}

TEST_F(TraceCommand, BadOptionsAreStatus2) {
  expect_refusal("generate mlp -o x.foo", 2, "end it in .swt, .json or .json.gz");
  expect_refusal("generate mlp --width 4294967296 -o x.swt", 2, "must be 1 to 1125899906842624");
  expect_refusal("generate mlp --width 0 -o x.swt", 2, "--width");
  expect_refusal("generate mlp --width -5 -o x.swt", 2, "--width");
  expect_refusal("generate cnn --workspace 12xx -o x.swt", 2, "'12xx' has an unknown unit");
  expect_refusal("generate mlp --optimizer magic -o x.swt", 2, "magic");
  expect_refusal("generate mlp", 2, "--output");
  expect_refusal("generate", 2, "subcommand");
  expect_refusal("info", 2, "trace");
  EXPECT_FALSE(std::filesystem::exists(file("x.swt")));
}

TEST_F(TraceCommand, RefusalsOfTheSystemAreStatus1) {
  expect_refusal("info nowhere.swt", 1, "nowhere.swt: cannot open");
  expect_refusal("info .", 1, "cannot read");
  expect_refusal("generate mlp -o nowhere/x.swt", 1, "nowhere/x.swt: cannot open for writing");
}

TEST_F(TraceCommand, HelpTeachesWithExamples) {
  for (const char* command : {"--help", "generate --help"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.output, HasSubstr("Examples:\n"));
  }
}

}  // namespace
}  // namespace spillway
