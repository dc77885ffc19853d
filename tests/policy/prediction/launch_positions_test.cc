// Iterations of programs that say nothing of them, and of those that do: the same launches again
// are the same launches.
#include "policy/prediction/launch_positions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

using Program = std::vector<std::string>;

// Layers that launch the same, between a head and a tail that come once.
Program inference(int layers, int launches_a_layer) {
  Program made{"embedding"};
  for (int layer = 0; layer < layers; ++layer) {
    for (int i = 0; i < launches_a_layer; ++i) made.push_back(fmt::format("op{}", i % 7));
  }
  made.insert(made.end(), {"norm", "addmm", "softmax"});
  return made;
}

class Played {
 public:
  // How many launches were new.
  std::size_t play(const Program& program, bool step = false) {
    std::size_t fresh = 0;
    last_.clear();
    for (std::size_t i = 0; i < program.size(); ++i) {
      const LaunchHash hash = positions_.next(program[i], step && i + 1 == program.size());
      fresh += seen_.insert({hash.first, hash.second}).second ? 1U : 0U;
      last_.push_back(hash.first);
    }
    return fresh;
  }
  [[nodiscard]] std::size_t seen() const { return seen_.size(); }
  [[nodiscard]] const std::vector<std::uint64_t>& last() const { return last_; }
  // Launches of the last program that share an identity with another one of it.
  [[nodiscard]] std::size_t shared() const {
    return last_.size() - std::set(last_.begin(), last_.end()).size();
  }

 private:
  LaunchPositions positions_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
  std::vector<std::uint64_t> last_;
};

TEST(LaunchPositions, AnInferenceLoopIsLearntWithoutAWord) {
  for (const auto& [layers, launches] : {std::pair{1, 5}, {12, 9}, {48, 21}, {3, 400}, {96, 60}}) {
    SCOPED_TRACE(fmt::format("{} layers of {}", layers, launches));
    const Program program = inference(layers, launches);
    Played run;
    for (int i = 0; i < 40; ++i) run.play(program);
    const std::vector<std::uint64_t> before = run.last();
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(run.play(program), 0U) << i;
      ASSERT_EQ(run.last(), before) << i;
    }
    EXPECT_EQ(run.shared(), 0U);  // layers are told apart
  }
}

// A log every tenth time, another branch now and then.
TEST(LaunchPositions, WhatComesSeldomDoesNotMoveTheIteration) {
  const Program program = inference(12, 20);
  Program logged = program;
  logged.insert(logged.end(), {"item", "mean", "item"});
  Played run;
  for (int i = 0; i < 60; ++i) run.play(i % 10 == 9 ? logged : program);
  const std::size_t known = run.seen();
  for (int i = 0; i < 1000; ++i) run.play(i % 10 == 9 ? logged : program);
  EXPECT_EQ(run.seen(), known);
}

// The program says when an iteration begins; nothing else does.
TEST(LaunchPositions, AnOptimizersStepsCount) {
  const Program program = inference(12, 20);
  Played run;
  for (int i = 0; i < 4; ++i) run.play(program, true);
  const std::vector<std::uint64_t> before = run.last();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(run.play(program, true), 0U) << i;
    ASSERT_EQ(run.last(), before) << i;
  }
  EXPECT_EQ(run.shared(), 0U);
}

// Training, and between two epochs many steps without an optimizer.
// A plan is made from the second iteration. The layers of the first and second look like
// iterations.
TEST(LaunchPositions, TheSecondOfAnOptimizersIterationsIsAsTheThird) {
  for (const auto& [layers, launches] : {std::pair{12, 9}, {48, 21}, {3, 400}, {96, 60}}) {
    SCOPED_TRACE(fmt::format("{} layers of {}", layers, launches));
    const Program program = inference(layers, launches);
    Played run;
    run.play(program, true);
    run.play(program, true);
    const std::vector<std::uint64_t> second = run.last();
    EXPECT_EQ(run.shared(), 0U);
    run.play(program, true);
    EXPECT_EQ(run.last(), second);
  }
}

TEST(LaunchPositions, EvaluationsRepeatThemselves) {
  const Program train = inference(12, 40);
  const Program evaluate = inference(12, 15);
  Played run;
  const auto epoch = [&] {
    for (int i = 0; i < 40; ++i) run.play(train, true);
    for (int i = 0; i < 60; ++i) run.play(evaluate);
  };
  for (int i = 0; i < 3; ++i) epoch();
  const std::size_t known = run.seen();
  EXPECT_LT(known, 20 * train.size());
  for (int i = 0; i < 20; ++i) epoch();
  EXPECT_LT(run.seen(), known + train.size());
}

// Tokens of a text, and a new text every so often.
TEST(LaunchPositions, GenerationIsLearntTokenByToken) {
  const Program prompt = inference(6, 30);
  const Program token = inference(6, 12);
  Played run;
  Rng rng(7);
  const auto text = [&] {
    run.play(prompt);
    for (std::uint64_t i = 50 + rng.below(200); i > 0; --i) run.play(token);
  };
  for (int i = 0; i < 10; ++i) text();
  const std::size_t known = run.seen();
  for (int i = 0; i < 50; ++i) text();
  EXPECT_LT(run.seen(), known + known / 10);
}

// Nothing repeats: no more is known after twice as many launches.
TEST(LaunchPositions, AProgramThatNeverRepeatsItselfDoesNotGrow) {
  Played run;
  Rng rng(3);
  std::size_t half_way = 0;
  for (int i = 0; i < 24; ++i) {
    Program program;
    for (int k = 0; k < 25'000; ++k) program.push_back(fmt::format("op{}", rng.below(40)));
    run.play(program);
    half_way = i == 11 ? run.seen() : half_way;
  }
  EXPECT_LT(run.seen(), half_way + half_way / 20);
}

}  // namespace
}  // namespace spillway
