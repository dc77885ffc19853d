// Drawing for real, where gnuplot is installed; and what happens where it is not, or fails.
#include "plot/svg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "plot/gnuplot_process.h"

namespace spillway::plot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

bool gnuplot_is_installed() { return run_gnuplot("print 1\n").has_value(); }

class Svg : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gnuplot_is_installed()) GTEST_SKIP() << "gnuplot is not installed";
    folder_ = std::filesystem::temp_directory_path() / fmt::format("spillway-svg-{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string read(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

Figure one_of_each() {
  Figure figure;
  figure.title = "A figure";
  figure.columns = 3;
  for (const Mark mark :
       {Mark::kLine, Mark::kLinePoints, Mark::kSteps, Mark::kPoints, Mark::kArea}) {
    XyChart chart;
    chart.title = "panel";
    chart.x.log = mark == Mark::kPoints;
    chart.series = {{"curve", {1, 10, 100}, {1, kMissing, 3}, mark, {}, true}};
    figure.panels.emplace_back(chart);
  }
  for (const BarLayout layout : {BarLayout::kClustered, BarLayout::kStacked}) {
    BarChart chart;
    chart.layout = layout;
    chart.categories = {{"first", "group"}, {"second", "group"}};
    chart.series = {{"policy_a", {1, 2}, {}}, {"policy_b", {3, kMissing}, {}}};
    chart.reference = 1;
    figure.panels.emplace_back(chart);
  }
  figure.panels.emplace_back(XyChart{});
  figure.panels.emplace_back(BarChart{});
  return figure;
}

TEST_F(Svg, DrawsEveryKindOfPanelEmptyOnesToo) {
  const auto path = folder_ / "figure.svg";
  const Status status = write_svg(one_of_each(), path);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  const std::string svg = read(path);
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  for (const char* text :
       {"A figure", "curve", "policy_a", "policy_b", "first", "group", "n/a", "no data"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_),
                          std::filesystem::directory_iterator()),
            1)
      << "nothing but the drawing is left behind";
}

TEST_F(Svg, TextIsDrawnAndNeverExecuted) {
  const auto evidence = folder_ / "evidence";
  const std::string command = "system('touch " + evidence.string() + "')";
  XyChart chart;
  chart.title = "'; " + command + " #";
  chart.x.label = "`touch " + evidence.string() + "`\n!touch " + evidence.string();
  chart.series = {{"x' , " + command + ", '", {1, 2}, {1, 2}, Mark::kLine, {}, false}};
  BarChart bars;
  bars.categories = {{"'); " + command, "@" + command}};
  bars.series = {{"END\n" + command + "\n", {1}, {}}};
  Figure figure;
  figure.title = "'\n" + command;
  figure.panels = {chart, bars};
  const auto path = folder_ / "it's a $(name).svg";
  const Status status = write_svg(figure, path);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_FALSE(std::filesystem::exists(evidence));
  EXPECT_THAT(read(path), HasSubstr("system("));
}

TEST_F(Svg, SameFigureSameFile) {
  ASSERT_TRUE(write_svg(one_of_each(), folder_ / "a.svg").has_value());
  ASSERT_TRUE(write_svg(one_of_each(), folder_ / "b.svg").has_value());
  EXPECT_EQ(read(folder_ / "a.svg"), read(folder_ / "b.svg"));
}

TEST_F(Svg, AnElementOfAPageHasNothingOfAFile) {
  Figure figure = one_of_each();
  figure.transparent = true;
  const Result<std::string> element = draw_svg_element(figure, "chart", "what it shows");
  ASSERT_TRUE(element.has_value()) << element.error().message;
  EXPECT_TRUE(
      element->starts_with("<svg class=\"chart\" viewBox=\"0 0 1920 1236\" role=\"img\" "
                           "aria-label=\"what it shows\">\n<g "))
      << element->substr(0, 200);
  EXPECT_THAT(*element, HasSubstr("curve"));
  for (const char* of_a_file : {"<?xml", "xmlns", "<desc", "Gnuplot", "#ffffff"}) {
    EXPECT_THAT(*element, Not(HasSubstr(of_a_file)));
  }
}

TEST_F(Svg, FolderThatIsNotThereIsOneLine) {
  const Status status = write_svg(one_of_each(), folder_ / "missing" / "figure.svg");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("missing/figure.svg"));
  EXPECT_THAT(status.error().message, Not(HasSubstr("\n")));
}

TEST_F(Svg, ScriptThatFailsReportsTheComplaint) {
  const auto output = run_gnuplot("plot nonsense(\n");
  ASSERT_FALSE(output.has_value());
  EXPECT_EQ(output.error().code, ErrorCode::kIo);
  EXPECT_THAT(output.error().message, HasSubstr("gnuplot failed: line 0: invalid expression"));
  EXPECT_THAT(output.error().message, Not(HasSubstr("\n")));
}

TEST(Gnuplot, MissingProgramSaysWhatToInstall) {
  const auto output = run_gnuplot("", "gnuplot-that-is-not-installed");
  ASSERT_FALSE(output.has_value());
  EXPECT_EQ(output.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(output.error().message, HasSubstr("gnuplot-nox"));
}

TEST(Gnuplot, ProgramThatFailsSilentlyIsStillAnError) {
  const auto output = run_gnuplot("", "false");
  ASSERT_FALSE(output.has_value());
  EXPECT_EQ(output.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace spillway::plot
