// Ranges of an update: however a tensor is cut, and wherever its parts lie, the same bits.
#include <gmock/gmock.h>

#include <optional>
#include <ostream>

#include "optimizer/tensors.h"

namespace spillway::optimizer {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  Options options;
};
void PrintTo(const Case& shown, std::ostream* out) { *out << shown.name; }

Options options_of(Rule rule, Variant variant) {
  Options options;
  options.rule = rule;
  options.variant = variant;
  return options;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Variant variant : {Variant::kLoopCpu, Variant::kFusedCpu}) {
    const bool loop = variant == Variant::kLoopCpu;
    all.push_back({loop ? "AdamLoop" : "AdamFused", options_of(Rule::kAdam, variant)});
    all.push_back(
        {loop ? "AdamWAmsgradLoop" : "AdamWAmsgradFused", options_of(Rule::kAdam, variant)});
    all.back().options.amsgrad = all.back().options.decoupled_decay = true;
    all.push_back({loop ? "SgdLoop" : "SgdFused", options_of(Rule::kSgd, variant)});
    all.back().options.nesterov = all.back().options.maximize = true;
    all.push_back({loop ? "AdagradLoop" : "AdagradFused", options_of(Rule::kAdagrad, variant)});
  }
  return all;
}

class OptimizerUpdate : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto made = Update::make(GetParam().options);
    if (!made) GTEST_SKIP() << made.error();
    update_ = *made;
  }
  std::optional<Update> update_;
};

TEST_P(OptimizerUpdate, CutInRangesGivesTheSameAsAtOnce) {
  for (const std::size_t elements : {1U, 7U, 8U, 9U, 63U, 64U, 65U, 130U, 1000U, 5003U}) {
    Tensors once(elements);
    Tensors cut(elements);
    update_->run(usual_step(), once.operands(), elements, 0, elements);
    std::size_t begin = 0;
    for (std::size_t grains = 1; begin < elements; ++grains) {
      const std::size_t end = std::min(begin + grains * Update::kGrainElements, elements);
      update_->run(usual_step(), cut.operands(), elements, begin, end);
      begin = end;
    }
    EXPECT_TRUE(once.same_bits(cut));
    EXPECT_TRUE(once.guards_are_whole());
    EXPECT_NE(once.parameter.data()[0], Tensors(elements).parameter.data()[0]);
  }
}

TEST_P(OptimizerUpdate, LeavesWhatIsNotInTheRange) {
  Tensors all(1000);
  const Tensors before(1000);
  update_->run(usual_step(), all.operands(), 1000, 64, 128);
  for (std::size_t i = 0; i < 1000; ++i) {
    if (i < 64 || i >= 128) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(all.parameter.data()[i]),
                std::bit_cast<std::uint32_t>(before.parameter.data()[i]));
    }
  }
  EXPECT_NE(all.parameter.data()[100], before.parameter.data()[100]);
}

TEST_P(OptimizerUpdate, WritesElsewhereAndKeepsWhatItReads) {
  constexpr std::size_t kElements = 1003;
  Tensors in_place(kElements);
  update_->run(usual_step(), in_place.operands(), kElements, 0, kElements);
  Tensors inputs(kElements);
  Tensors results(kElements);
  results.gradient = inputs.gradient;
  Operands operands = inputs.operands();
  operands.parameter_out = results.parameter.data();
  operands.first_out = results.first.data();
  operands.second_out = results.second.data();
  operands.max_second_out = results.max_second.data();
  update_->run(usual_step(), operands, kElements, 0, kElements);
  EXPECT_TRUE(results.same_bits(in_place));
  EXPECT_TRUE(inputs.same_bits(Tensors(kElements)));
}

TEST_P(OptimizerUpdate, NothingForNoElements) {
  Tensors none(0);
  update_->run(usual_step(), none.operands(), 0, 0, 0);
  EXPECT_TRUE(none.guards_are_whole());
}

INSTANTIATE_TEST_SUITE_P(Rules, OptimizerUpdate, testing::ValuesIn(cases()),
                         [](const auto& suite) { return std::string(suite.param.name); });

TEST(OptimizerUpdateMake, RefusesWhatNamesNoUpdateInOneLine) {
  Options options;
  options.nesterov = true;
  EXPECT_THAT(Update::make(options).error(), HasSubstr("SGD's"));
  options = options_of(Rule::kSgd, Variant::kLoopCpu);
  options.amsgrad = true;
  EXPECT_THAT(Update::make(options).error(), HasSubstr("Adam's"));
  options = options_of(Rule::kAdam, Variant::kLoopCpu);
  options.parameter_type = NumberType::kBfloat16;
  EXPECT_THAT(Update::make(options).error(), HasSubstr("bfloat16"));
  options = options_of(Rule::kSgd, Variant::kFusedCpu);
  options.parameter_type = options.gradient_type = NumberType::kBfloat16;
  EXPECT_THAT(Update::make(options).error(), HasSubstr("fused=False"));
  options = options_of(Rule::kAdagrad, Variant::kFusedCuda);
  EXPECT_THAT(Update::make(options).error(), HasSubstr("double"));
  options = options_of(Rule::kAdam, Variant::kFusedCuda);
  options.coupled_decay = true;
  options.compute_capability = 90;
  EXPECT_THAT(Update::make(options).error(), HasSubstr("where an element lies"));
  options.compute_capability = 100;
  EXPECT_TRUE(Update::make(options).has_value());
}

TEST(OptimizerUpdateMake, CountsTheBytesOfAnElement) {
  Options options;
  EXPECT_EQ(Update::make(options)->bytes_per_element(), 28U);
  options.amsgrad = true;
  options.gradient_type = NumberType::kBfloat16;
  EXPECT_EQ(Update::make(options)->bytes_per_element(), 34U);
  EXPECT_EQ(Update::make(options_of(Rule::kSgd, Variant::kFusedCpu))->bytes_per_element(), 20U);
}

}  // namespace
}  // namespace spillway::optimizer
