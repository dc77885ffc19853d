// `spillway plan ...` as a person calls it.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "trace/generate.h"
#include "trace/read.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PlanCommand : public test::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Trace trace =
        generate_mlp({.batch_size = 64, .inputs = 512, .width = 2048, .layers = 6, .training = {}});
    ASSERT_TRUE(write_trace(trace, folder_ / "mlp.swt").has_value());
  }
};

TEST_F(PlanCommand, PrintsTheProgramForTheMachineThatIsSet) {
  const test::Outcome fits = run("plan mlp.swt");
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_THAT(fits.out, StartsWith("// mlp 64 under g10 on a100-40gb: "));
  EXPECT_THAT(fits.out, HasSubstr("// kernel 0,"));
  EXPECT_THAT(fits.out, Not(HasSubstr("pre_evict(")));
  const test::Outcome small = run("plan --set device.capacity=150MiB mlp.swt");
  EXPECT_EQ(small.status, 0) << small.err;
  EXPECT_THAT(small.out, HasSubstr("pre_evict("));
}

TEST_F(PlanCommand, JsonIsAnObjectForEachCall) {
  const test::Outcome outcome = run("plan mlp.swt --json --set device.capacity=150MiB");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  int pre_evictions = 0;
  for (const std::string& line : test::lines_of(outcome.out)) {
    const auto call = nlohmann::json::parse(line);
    EXPECT_GT(call["bytes"].get<Bytes>(), 0U);
    EXPECT_EQ(call.contains("to"), call["step"] == "pre_evict");
    pre_evictions += call["step"] == "pre_evict" ? 1 : 0;
  }
  EXPECT_GT(pre_evictions, 0);
}

// Two tensors of 1 MiB that live on, and a third that dies with the last kernel, which a plan says
// in front of the first.
constexpr const char* kOperators = R"json({"format": "kernel-trace/1", "model": "two", "tensors": [
  {"bytes": 1048576, "persistent": true}, {"bytes": 1048576, "persistent": true},
  {"bytes": 1048576, "persistent": false}, {"bytes": 4096, "persistent": false}],
  "kernels": [
  {"name": "aten::mul", "ms": 10, "reads": [0], "writes": [2]},
  {"name": "AddBackward0", "ms": 1, "reads": [], "writes": []},
  {"name": "aten::add_ (pointwise)", "ms": 10, "reads": [1, 2], "writes": [1, 3]}]})json";

TEST_F(PlanCommand, AsTorchIsAFileOfPython) {
  std::ofstream(folder_ / "two.json") << kOperators;
  const test::Outcome outcome = run("plan --as torch --set device.capacity=3MiB two.json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              StartsWith("# two 0 under g10 on a100-40gb with 3 MiB of device memory"));
  EXPECT_THAT(outcome.out, HasSubstr("program = Program(__file__, device_bytes=3145728)\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("\ntensor0 = tensor(0, 1048576)\ntensor1 = tensor(1, 1048576)\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("\ntensor2 = alloc(2, 1048576)\n"
                        "kernel(0, \"aten::mul\", reads=[tensor0], writes=[tensor2])  # 10 ms\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nkernel(1, \"AddBackward0\")  # 1 ms\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("\nkernel(2, \"aten::add_ (pointwise)\", reads=[tensor1, tensor2], "
                        "writes=[tensor1, tensor3])  # 10 ms\nfree("));
}

// tensor1 is cuBLAS's: products and their fills read and write it, and nobody else uses it.
TEST_F(PlanCommand, AsTorchNamesNoWorkspaceOfALibrary) {
  std::ofstream(folder_ / "product.json") << R"json({"format": "kernel-trace/1", "model": "product",
  "tensors": [{"bytes": 1048576, "persistent": true}, {"bytes": 4194304, "persistent": true},
  {"bytes": 1048576, "persistent": true}],
  "kernels": [
  {"name": "memset", "ms": 1, "reads": [1], "writes": [1]},
  {"name": "aten::mm (product)", "ms": 1, "reads": [0, 1], "writes": [1, 2]},
  {"name": "aten::mm (split K)", "ms": 1, "reads": [1, 2], "writes": [1, 2]},
  {"name": "aten::bmm", "ms": 1, "reads": [0, 1, 2], "writes": [1, 2]}]})json";
  const test::Outcome outcome = run("plan --as torch --set device.capacity=8MiB product.json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("tensor1")));
  EXPECT_THAT(outcome.out, HasSubstr("\nkernel(0, \"memset\")"));
  EXPECT_THAT(outcome.out, HasSubstr("\nkernel(1, \"aten::mm (product)\", reads=[tensor0], "
                                     "writes=[tensor2])"));
}

TEST_F(PlanCommand, AsTorchTakesStepsOfOperators) {
  std::ofstream(folder_ / "steps.json") << R"json({"format": "kernel-trace/1", "model": "steps",
  "tensors": [{"bytes": 1048576, "persistent": true}, {"bytes": 4194304, "persistent": true}],
  "kernels": [
  {"name": "fill", "ms": 1, "reads": [], "writes": [1]},
  {"name": "radix_sort histogram", "ms": 1, "reads": [0], "writes": [1]},
  {"name": "index min (pointwise)", "ms": 1, "reads": [0], "writes": [1]},
  {"name": "aten::embedding_dense_backward scan_init", "ms": 1, "reads": [0], "writes": [1]},
  {"name": "aten::embedding_dense_backward", "ms": 1, "reads": [0], "writes": [1]}]})json";
  const test::Outcome outcome = run("plan --as torch --set device.capacity=8MiB steps.json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nkernel(1, \"radix_sort histogram\", reads=[tensor0]"));
}

TEST_F(PlanCommand, AsTorchRefusesKernelsOfAGpu) {
  expect_refusal("plan --as torch mlp.swt", 2, "is no operator of PyTorch; record the script");
  expect_refusal("plan --as torch --json mlp.swt", 2, "--json");
  expect_refusal("plan --as cuda mlp.swt", 2, "--as");
}

TEST_F(PlanCommand, OneLineAndStatus2ForAMistake) {
  expect_refusal("plan mlp.swt --policy deepum", 2, "deepum decides as the program runs");
  expect_refusal("plan mlp.swt --policy g11", 2, "g11");
  expect_refusal("plan mlp.swt --machine a1000", 2, "a1000");
  expect_refusal("plan mlp.swt --set device.capcity=1GiB", 2, "device.capcity");
  expect_refusal("plan mlp.swt --set name=mine name=yours", 2, "'name=yours' is one word too many");
  expect_refusal("plan", 2, "TRACE");
}

}  // namespace
}  // namespace spillway
