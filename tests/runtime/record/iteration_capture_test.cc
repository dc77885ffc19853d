// One iteration on its way from a program to a trace: when it is taken, what the file between the
// two keeps, and what is made of it.
#include "runtime/record/iteration_capture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "trace/validate.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Names = std::vector<std::string>;

// A program that launches by names, and a recorder that notes them.
class IterationCaptureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("spillway-capture-{}-{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    capture_ = std::make_unique<IterationCapture>(
        CaptureOptions{.folder = folder_.string(), .warm_up = 2, .device = "a device"},
        IterationCapture::Source{.begin = [this] { begin(); }, .end = [this] { return end(); }});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void begin() {
    recorded_ = {};
    recorded_.trace.tensors = {{.bytes = 4096, .persistent = true, .scratch = false}};
    recording_ = true;
  }
  std::optional<RecordedIteration> end() {
    recording_ = false;
    return recorded_.trace.kernels.empty() ? std::nullopt : std::optional(recorded_);
  }
  // Each takes 1 ns, and 1000 where operands are told.
  void launch(const std::string& name, bool part = false) {
    capture_->launched(name, part);
    if (capture_->wants_operands()) {
      capture_->operands_told(false);
    }
    if (recording_) {
      Kernel kernel;
      kernel.name = name;
      kernel.duration_ns = capture_->wants_operands() ? 1000 : 1;
      kernel.writes = {0};
      recorded_.trace.kernels.push_back(kernel);
    }
  }
  void iterate(int times, const Names& names, bool say) {
    for (int i = 0; i < times; ++i) {
      for (const std::string& name : names) {
        launch(name);
      }
      if (say) {
        (void)capture_->iteration_ended();
      }
    }
  }
  // The only one.
  [[nodiscard]] CapturedIteration left() const {
    const std::vector<CapturedIteration> all = read_captured_iterations(folder_.string());
    return all.size() == 1 ? all.front() : CapturedIteration();
  }
  static Names names_of(const Trace& trace) {
    Names names;
    for (const Kernel& kernel : trace.kernels) {
      names.push_back(kernel.name);
    }
    return names;
  }

  std::filesystem::path folder_;
  bool recording_ = false;
  RecordedIteration recorded_;
  std::unique_ptr<IterationCapture> capture_;
};

TEST_F(IterationCaptureTest, TakesTheFourthOfThoseThatTheProgramSays) {
  iterate(3, {"aten::mm", "aten::add_"}, true);
  EXPECT_TRUE(capture_->wants_operands());
  EXPECT_FALSE(capture_->done());
  launch("aten::mm");
  launch("part of it", true);
  launch("aten::add");  // in place where nobody looks
  EXPECT_FALSE(capture_->iteration_ended());
  EXPECT_TRUE(capture_->done());
  iterate(3, {"later"}, true);
  capture_->finish();

  const CapturedIteration captured = left();
  EXPECT_EQ(captured.iterations, 4U);
  EXPECT_EQ(captured.device, "a device");
  ASSERT_TRUE(captured.used);
  const Trace trace = trace_of(captured);
  EXPECT_THAT(names_of(trace), ElementsAre("aten::mm", "aten::add"));
  // Times are those of the third; the part had none there.
  EXPECT_EQ(trace.kernels[0].duration_ns, 1001);
  EXPECT_EQ(trace.kernels[1].duration_ns, 1);
  EXPECT_TRUE(validate_trace(trace, "test"));
}

TEST_F(IterationCaptureTest, FindsWhereNobodySays) {
  iterate(200, {"a", "b", "c", "d", "e"}, false);
  ASSERT_TRUE(left().used);
  EXPECT_THAT(left().used->kernels, SizeIs(5));
}

// Eight layers look like iterations until the whole pass comes again.
TEST_F(IterationCaptureTest, ALayerIsNoIteration) {
  Names pass = {"embed", "dropout"};
  for (int layer = 0; layer < 8; ++layer) {
    pass.insert(pass.end(), {"norm", "attention", "add", "norm", "up", "gelu", "down", "add"});
  }
  pass.insert(pass.end(), {"norm", "head", "softmax", "argmax"});
  iterate(60, pass, false);
  ASSERT_TRUE(left().used);
  EXPECT_THAT(left().used->kernels, SizeIs(pass.size()));
}

TEST_F(IterationCaptureTest, WhatWasFoundBeforeTheProgramSaysIsDropped) {
  iterate(100, {"layer", "of", "the", "first", "step"}, false);
  EXPECT_TRUE(left().used);
  (void)capture_->iteration_ended();
  capture_->finish();
  EXPECT_FALSE(left().used);
  EXPECT_EQ(left().iterations, 1U);
  iterate(3, {"mm", "add"}, true);
  ASSERT_TRUE(left().used);
  EXPECT_THAT(names_of(*left().used), ElementsAre("mm", "add"));
}

// Two optimizers: behind each of their steps an iteration ends, of one or the other.
TEST_F(IterationCaptureTest, TimesAndOperandsAreOfIterationsThatAreAlike) {
  for (int i = 0; i < 3; ++i) {
    iterate(1, {"discriminator", "step"}, true);
    iterate(1, {"generator", "discriminator", "step"}, true);
  }
  EXPECT_TRUE(capture_->done());
  const CapturedIteration captured = left();
  ASSERT_TRUE(captured.used);
  EXPECT_THAT(names_of(*captured.used), ElementsAre("discriminator", "step"));
  EXPECT_THAT(captured.times, SizeIs(2));
}

TEST_F(IterationCaptureTest, WhatIsNeverAlikeIsLeftAllTheSame) {
  Names names = {"a"};
  for (int i = 0; i < 12; ++i) {
    iterate(1, names, true);
    names.emplace_back("one more");
  }
  EXPECT_TRUE(capture_->done());
  const CapturedIteration captured = left();
  EXPECT_EQ(whole_launches(captured), captured.times.size() + 1);
}

TEST_F(IterationCaptureTest, AnIterationThatCannotBeTakenIsTakenLater) {
  iterate(3, {"mm"}, true);
  (void)capture_->iteration_ended();  // nothing was launched
  EXPECT_FALSE(capture_->done());
  iterate(1, {"mm"}, true);
  EXPECT_TRUE(capture_->done());
  ASSERT_TRUE(left().used);
  EXPECT_THAT(names_of(*left().used), ElementsAre("mm"));
}

TEST_F(IterationCaptureTest, SaysHowFarAProgramCameThatEndsTooSoon) {
  iterate(3, {"mm"}, true);
  capture_->finish();
  EXPECT_FALSE(left().used);
  EXPECT_EQ(left().launches, 3U);
  EXPECT_EQ(left().iterations, 3U);
}

TEST_F(IterationCaptureTest, WhatIsNoIterationIsSkipped) {
  std::ofstream(captured_file(folder_.string(), 7)) << "{\"version\": 1, \"launches\"";
  std::ofstream(captured_file(folder_.string(), 8)) << "{\"version\": 2}";
  EXPECT_THAT(read_captured_iterations(folder_.string()), IsEmpty());
}

TEST_F(IterationCaptureTest, AResultThatOutlivesTheIterationIsNotPersistent) {
  CapturedIteration captured;
  captured.tells_changes = true;
  captured.used.emplace();
  captured.used->tensors = {{.bytes = 1, .persistent = true, .scratch = false},
                            {.bytes = 2, .persistent = true, .scratch = false}};
  captured.used->kernels.resize(2);
  for (Kernel& kernel : captured.used->kernels) {
    kernel.name = "k";
    kernel.reads = {0};
    kernel.writes = {0, 1};
  }
  const Trace trace = trace_of(captured);
  EXPECT_TRUE(trace.tensors[0].persistent);
  EXPECT_FALSE(trace.tensors[1].persistent);
}

Kernel kernel(std::vector<TensorId> reads, std::vector<TensorId> writes) {
  Kernel made;
  made.name = "kernel \xff\n";
  made.duration_ns = 5;
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  return made;
}

TEST(CapturedIterationTest, WhoWritesWhatIsThereReadsItToo) {
  CapturedIteration captured;
  captured.used.emplace();
  captured.used->tensors = {{.bytes = 1, .persistent = true, .scratch = false},
                            {.bytes = 2, .persistent = false, .scratch = false},
                            {.bytes = 3, .persistent = false, .scratch = false},
                            {.bytes = 4, .persistent = false, .scratch = false}};
  // A weight; a result, then changed in place; an input that is overwritten; work space.
  captured.used->kernels = {kernel({}, {0, 1}), kernel({2}, {1}), kernel({}, {2, 3})};
  captured.used->kernels[1].synchronizes = true;
  const std::optional<CapturedIteration> read = parse_captured_iteration(to_json(captured));
  ASSERT_TRUE(read);
  const Trace trace = trace_of(*read);
  EXPECT_THAT(trace.kernels[0].reads, ElementsAre(0));
  EXPECT_THAT(trace.kernels[1].reads, ElementsAre(2, 1));
  EXPECT_THAT(trace.kernels[2].reads, ElementsAre(2));
  EXPECT_TRUE(trace.tensors[3].scratch);
  EXPECT_TRUE(trace.kernels[1].synchronizes);
  const Status valid = validate_trace(trace, "test");
  EXPECT_TRUE(valid) << valid.error().message;
}

}  // namespace
}  // namespace spillway
