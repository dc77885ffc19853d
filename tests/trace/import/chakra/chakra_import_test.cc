// Chakra execution traces: which operators are kernels, what is a tensor, which part is the
// iteration.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "trace/import.h"
#include "trace/import_examples.h"

namespace spillway {
namespace chakra_import {
namespace {

using test::chakra_file;
using test::chakra_node;
using test::ChakraTensor;
using test::kernel;
using testing::HasSubstr;

const std::string kAdd = "aten::add(Tensor self, Tensor other) -> Tensor";
const std::string kAddInPlace = "aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)";

Result<Imported> imported(const std::string& text, const std::string& kineto = "",
                          const ImportOptions& options = {}) {
  MemorySource file(text);
  MemorySource times(kineto);
  const NamedSource with{times, "kineto"};
  return import_trace({file, "chakra"}, kineto.empty() ? nullptr : &with, options);
}

Trace trace_of(const std::string& text, const std::string& kineto = "") {
  Result<Imported> result = imported(text, kineto);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result ? std::move(result->trace) : Trace{};
}

void expect_error(const std::string& text, const std::string& message,
                  const std::string& kineto = "", const ImportOptions& options = {}) {
  const Result<Imported> result = imported(text, kineto, options);
  ASSERT_FALSE(result.has_value()) << message;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(result.error().message, HasSubstr(message));
}

TEST(ChakraImport, KernelsAreTheOperatorsThatCompute) {
  const Trace trace = trace_of(test::chakra_example());
  // Not linear, which is made of t and mm; not t, a view; not empty.
  EXPECT_EQ(trace.kernels,
            (std::vector<Kernel>{
                kernel("aten::mm", 1000, {0, 1}, {2}), kernel("aten::relu", 1000, {2}, {3}),
                kernel("aten::fill_", 1000, {}, {4}), kernel("aten::sum", 1000, {3}, {5}),
                kernel("aten::sub_", 1000, {0, 5}, {0})}));
  // w: 3 x 4 floats, there before; x: 2 x 4; y and relu's: 2 x 3; filled and never read; the sum,
  // which has the storage's id of y and is another tensor.
  EXPECT_EQ(trace.tensors, (std::vector<Tensor>{{48, true, false},
                                                {32, true, false},
                                                {24, false, false},
                                                {24, false, false},
                                                {40, false, true},
                                                {4, false, false}}));
}

TEST(ChakraImport, TimesAreThoseOfTheSameOperatorsInKineto) {
  const std::string kineto = test::kineto_file(
      {test::kineto_op("aten::linear", 10, 9, 10), test::kineto_op("aten::t", 11, 1, 11),
       test::kineto_op("aten::mm", 12, 6.5, 12), test::kineto_op("aten::relu", 20, 2, 20),
       test::kineto_op("aten::fill_", 25, 0.25, 31), test::kineto_op("aten::sum", 30, 3, 40),
       test::kineto_op("aten::sub_", 40, 0.5, 50)});
  std::vector<TimeNs> times;
  for (const Kernel& one : trace_of(test::chakra_example(), kineto).kernels) {
    times.push_back(one.duration_ns);
  }
  EXPECT_EQ(times, (std::vector<TimeNs>{6500, 2000, 250, 3000, 500}));
}

TEST(ChakraImport, TimesOnADeviceAreThoseOfItsKernels) {
  const auto work = [](const std::string& category, double dur_us, int op) {
    return test::kineto_event(category, "k", 100, dur_us, fmt::format(R"("External id": {},)", op));
  };
  // Kernels name operators by "External id", which is not the rf_id.
  const std::string kineto = test::kineto_file(
      {test::kineto_op("aten::linear", 10, 9, 10), test::kineto_op("aten::mm", 12, 6.5, 12),
       test::kineto_op("aten::relu", 20, 2, 20), test::kineto_op("aten::sum", 30, 3, 40),
       test::kineto_op("aten::sub_", 40, 0.5, 50), work("kernel", 4, 512), work("kernel", 1, 512),
       work("gpu_memset", 2, 520), work("kernel", 3, 540)});
  const Result<Imported> result = imported(test::chakra_example(), kineto);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  std::vector<TimeNs> times;
  for (const Kernel& one : result->trace.kernels) {
    times.push_back(one.duration_ns);
  }
  EXPECT_EQ(times, (std::vector<TimeNs>{5000, 2000, 1, 3000, 1}));
  EXPECT_THAT(result->notes, testing::Contains("1 of 5 kernels have no time in the Kineto trace."));
}

TEST(ChakraImport, AnOperatorThatAlsoComputesIsAKernelBesideThoseInside) {
  // addmm copies the bias into its result, which it has allocated without saying so.
  const Trace trace = trace_of(chakra_file(
      {chakra_node(11, 10, "aten::copy_", "aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)",
                   {{24, {2, 3}}, {21, {2, 3}, "cpu", {0, 1}}}, {{24, {2, 3}}}),
       chakra_node(10, 1, "aten::addmm",
                   "aten::addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor",
                   {{21, {3}}, {22, {2, 4}}, {23, {4, 3}}}, {{24, {2, 3}}})}));
  ASSERT_EQ(trace.kernels.size(), 2U);
  EXPECT_EQ(trace.kernels[0], kernel("aten::copy_", 1000, {1}, {0}));
  EXPECT_EQ(trace.kernels[1], kernel("aten::addmm", 1000, {1, 2, 3}, {0}));
  EXPECT_EQ(trace.tensors[0], (Tensor{24, false, false}));
  EXPECT_EQ(trace.tensors[1], (Tensor{12, true, false}));  // not 24, as the expanded view has
}

TEST(ChakraImport, ListsOfTensorsAreOperands) {
  std::string node =
      chakra_node(10, 1, "aten::_foreach_add_",
                  "aten::_foreach_add_(Tensor(a!)[] self, Scalar scalar) -> ()", {{7, {2}}}, {});
  const auto replace = [&node](const std::string& what, const std::string& with) {
    node.replace(node.find(what), what.size(), with);
  };
  replace(R"([900, 7, 0, 2, 4, "cpu"])", R"([[900, 7, 0, 2, 4, "cpu"], [901, 8, 6, 2, 4, "cpu"]])");
  replace(R"("shapes": [[2]])", R"("shapes": [[[2],[2]]])");
  replace(R"("strides": [[1]])", R"("strides": [[[1],[1]]])");
  replace("Tensor(float)", "GenericList[Tensor(float),Tensor(float)]");
  const Trace trace = trace_of(chakra_file({node}));
  EXPECT_EQ(trace.kernels[0], kernel("aten::_foreach_add_", 1000, {0, 1}, {0, 1}));
  EXPECT_EQ(trace.tensors[0].bytes, 8U);
  EXPECT_EQ(trace.tensors[1].bytes, 32U);  // the second begins 6 elements into its storage
}

TEST(ChakraImport, OnlyTheDeviceCountsWhereThereIsOne) {
  const Result<Imported> result = imported(chakra_file(
      {chakra_node(10, 1, "aten::add", kAdd, {{1, {4}}, {2, {4}}}, {{3, {4}}}),
       chakra_node(20, 1, "aten::add", kAdd, {{4, {8}, "cuda:1"}, {3, {}}}, {{5, {8}, "cuda:1"}}),
       chakra_node(30, 1, "aten::_local_scalar_dense",
                   "aten::_local_scalar_dense(Tensor self) -> Scalar", {{5, {}, "cuda:1"}})}));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const Trace& trace = result->trace;
  ASSERT_EQ(trace.kernels.size(), 2U);
  EXPECT_EQ(trace.kernels[0], kernel("aten::add", 1000, {0}, {1}));
  EXPECT_FALSE(trace.kernels[0].synchronizes);
  EXPECT_TRUE(trace.kernels[1].synchronizes);  // the host reads a value of the device
  EXPECT_THAT(result->notes, testing::Contains("Only tensors on cuda:1 are in the trace."));
}

std::string three_steps(const std::string& mark) {
  std::vector<std::string> nodes;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::uint64_t id = 100 * (step + 1);
    nodes.push_back(chakra_node(id, 1, fmt::format(fmt::runtime(mark), step)));
    for (std::uint64_t i = 0; i <= step; ++i) {
      nodes.push_back(
          chakra_node(id + 1 + i, id, "aten::add_", kAddInPlace, {{1, {4}}, {2, {4}}}, {{1, {4}}}));
    }
  }
  return chakra_file(nodes);
}

TEST(ChakraImport, TheIterationIsTheLastThatIsMarkedOrTheWantedOne) {
  const std::string steps = three_steps("ProfilerStep#{}");
  const Result<Imported> last = imported(steps);
  ASSERT_TRUE(last.has_value()) << last.error().message;
  EXPECT_EQ(last->iteration, "ProfilerStep#2");
  EXPECT_EQ(last->trace.kernels.size(), 3U);
  EXPECT_EQ(imported(steps, "", {.iteration = 1}).value().trace.kernels.size(), 2U);
  expect_error(steps, "chakra: no ProfilerStep#3; the file has ProfilerStep#0 to ProfilerStep#2",
               "", {.iteration = 3});

  const std::string optimizers = three_steps("Optimizer.step#Adam.step");
  EXPECT_EQ(imported(optimizers).value().iteration,
            "iteration 2 of 0 to 2, each up to an optimizer's step");
  EXPECT_EQ(imported(optimizers, "", {.iteration = 0}).value().trace.kernels.size(), 1U);
  expect_error(optimizers, "chakra: no iteration 3; the file has 0 to 2", "", {.iteration = 3});
  EXPECT_EQ(imported(three_steps("other")).value().iteration, "all of the file");
}

TEST(ChakraImport, BadFilesAreRefusedWithTheirPlace) {
  const std::string good = chakra_node(10, 1, "aten::add", kAdd, {{1, {4}}}, {{3, {4}}});
  const auto with = [&good](const std::string& what, const std::string& instead) {
    std::string node = good;
    return chakra_file({good, node.replace(node.find(what), what.size(), instead)});
  };
  expect_error(with(R"("id": 10)", R"("id": -10)"), "chakra: nodes[1]: a node has id, name");
  expect_error(with(R"("values": [[900)", R"("values": [[-900)"), "nodes[1]: inputs.values[0]:");
  expect_error(with(R"("shapes": [[4]])", R"("shapes": [])"), "nodes[1]: inputs: values, shapes");
  expect_error(with("0, 4, 4", "0, 4, 9007199254740992"),
               "a tensor of more than 1125899906842624 bytes");
  expect_error(chakra_file({good, good}), "chakra: nodes: two have the id 10");
  expect_error(chakra_file({}), "the iteration: kernels: none");
  expect_error(chakra_file({good}).substr(0, 300), "of the JSON text");
  std::string schema = chakra_file({good});
  expect_error(schema.replace(schema.find("1.1.1"), 5, "1.0.2"), "chakra: schema: not one that");
  std::vector<std::string> deep;
  for (std::uint64_t id = 1; id < 400; ++id) {
    deep.push_back(chakra_node(id + 1, id, "aten::add", kAdd, {{1, {4}}}, {{3, {4}}}));
  }
  expect_error(chakra_file(deep), "is nested more than 256 deep");
}

TEST(ChakraImport, AnotherRunsTimesAreRefused) {
  expect_error(test::chakra_example(), "kineto: not a Kineto trace", "{}");
  expect_error(test::chakra_example(), "kineto: no operator has a \"Record function id\"",
               test::kineto_file({test::kineto_event("cpu_op", "aten::mm", 1, 1)}));
  expect_error(test::chakra_example(), "is it of the same run?",
               test::kineto_file({test::kineto_op("aten::mm", 1, 1, 77)}));
  expect_error(
      test::chakra_example(),
      "chakra: nodes: the one with id 12: aten::mm with rf_id 12; in the Kineto trace that "
      "is aten::t: not the same run",
      test::kineto_file({test::kineto_op("aten::t", 1, 1, 12)}));
}

}  // namespace
}  // namespace chakra_import
}  // namespace spillway
