// The script that gnuplot gets: positions, gaps, escaping, and figures that contradict themselves.
#include "plot/gnuplot_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::plot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figure figure_of(Panel panel) {
  Figure figure;
  figure.panels.push_back(std::move(panel));
  return figure;
}

std::string script_of(Panel panel) {
  const auto script = gnuplot_script(figure_of(std::move(panel)));
  EXPECT_TRUE(script.has_value()) << script.error().message;
  return script.value_or("");
}

XyChart line(std::vector<double> x, std::vector<double> y) {
  XyChart chart;
  XySeries series;
  series.name = "a series";
  series.x = std::move(x);
  series.y = std::move(y);
  chart.series.push_back(series);
  return chart;
}

BarChart two_by_two(BarLayout layout) {
  BarChart chart;
  chart.layout = layout;
  chart.categories = {{"one", "left"}, {"two", "right"}};
  chart.series = {{"low", {1, 3}, {}}, {"high", {2, kMissing}, {}}};
  return chart;
}

TEST(Quoted, HoldsNothingThatCouldEndTheConstant) {
  EXPECT_EQ(quoted("'it's"), "'\u2019it\u2019s'");
  EXPECT_EQ(quoted("a\n!touch b\x7f"), "'a !touch b '");
  EXPECT_EQ(quoted("`x` $(y) \\ µs"), "'`x` $(y) \\ µs'");
}

TEST(XyScript, MissingValuesAreGaps) {
  EXPECT_THAT(script_of(line({1, 2, 3}, {5, kMissing, 7})), HasSubstr("<< END\n1 5\n\n3 7\nEND\n"));
}

TEST(XyScript, LogarithmicAxesLeaveOutWhatIsNotPositive) {
  XyChart chart = line({0, 2, 3}, {5, -1, 7});
  chart.x.log = chart.y.log = true;
  EXPECT_THAT(script_of(chart), HasSubstr("<< END\n\n\n3 7\nEND\n"));
}

TEST(XyScript, SeriesWithoutPointsAreNotPlotted) {
  XyChart chart = line({1}, {kMissing});
  const std::string script = script_of(chart);
  EXPECT_THAT(script, HasSubstr("no data"));
  EXPECT_THAT(script, Not(HasSubstr("$panel0series0")));
}

TEST(XyScript, UnnamedSeriesStayOutOfTheLegend) {
  XyChart chart = line({1}, {1});
  EXPECT_THAT(script_of(chart), HasSubstr("set key at"));
  chart.series[0].name = "";
  const std::string script = script_of(chart);
  EXPECT_THAT(script, HasSubstr("notitle"));
  EXPECT_THAT(script, HasSubstr("unset key"));
}

TEST(BarScript, ClusteredBarsStandSideBySideAndGroupsApart) {
  const std::string script = script_of(two_by_two(BarLayout::kClustered));
  // Slots centred at 0.5 and, past the gap of a new group, 2.2; two bars of 0.42.
  EXPECT_THAT(script,
              HasSubstr("$panel0series0 << END\n0.29 1 0.08 0.5 0 1\n1.99 3 1.78 2.2 0 3\nEND\n"));
  EXPECT_THAT(script, HasSubstr("$panel0series1 << END\n0.71 2 0.5 0.92 0 2\nEND\n"));
  EXPECT_THAT(script, HasSubstr("set label 'n/a' at first 2.41"));
  EXPECT_THAT(script, HasSubstr("set label 'left' at first 0.5"));
  EXPECT_THAT(script, HasSubstr("'one' 0.5, 'two' 2.2"));
}

TEST(BarScript, StackedBarsStandOnEachOther) {
  const std::string script = script_of(two_by_two(BarLayout::kStacked));
  EXPECT_THAT(script, HasSubstr("0.5 1 0.14 0.86 0 1\n"));
  EXPECT_THAT(script, HasSubstr("0.5 3 0.14 0.86 1 3\n"));
  EXPECT_THAT(script, Not(HasSubstr("n/a"))) << "a stack with one missing layer has a height";
}

TEST(BarScript, StackWithNoLayerIsMissing) {
  BarChart chart = two_by_two(BarLayout::kStacked);
  chart.series[0].values[1] = kMissing;
  EXPECT_THAT(script_of(chart), HasSubstr("set label 'n/a' at first 2.2"));
}

TEST(BarScript, BarsTallerThanTheAxisSayTheirHeight) {
  BarChart chart = two_by_two(BarLayout::kClustered);
  chart.y.max = 2.5;
  EXPECT_THAT(script_of(chart), HasSubstr("set label '3' at first 1.99"));
}

TEST(BarScript, AxisStartsAtZeroUnlessBarsHangBelow) {
  BarChart chart = two_by_two(BarLayout::kClustered);
  EXPECT_THAT(script_of(chart), HasSubstr("set yrange [0:*]"));
  chart.series[0].values[0] = -1;
  EXPECT_THAT(script_of(chart), HasSubstr("set yrange [*:*]"));
}

TEST(BarScript, SameColorIndexIsTheSameColorInEveryPanel) {
  BarChart first = two_by_two(BarLayout::kClustered);
  BarChart second = first;
  first.series[0].color = 2;
  second.series.erase(second.series.begin());
  second.series[0].color = 2 + kColors;
  const std::string color = "rgb '#009e73'";
  EXPECT_THAT(script_of(first), HasSubstr(color));
  EXPECT_THAT(script_of(second), HasSubstr(color));
}

struct BadFigure {
  const char* why;
  Figure figure;
};

TEST(GnuplotScript, RefusesFiguresThatContradictThemselves) {
  XyChart uneven = line({1, 2}, {1});
  XyChart backwards = line({1}, {1});
  backwards.y.min = 2;
  backwards.y.max = 1;
  XyChart log_from_zero = line({1}, {1});
  log_from_zero.x.log = true;
  log_from_zero.x.min = 0;
  BarChart short_series = two_by_two(BarLayout::kClustered);
  short_series.series[1].values.pop_back();
  BarChart negative_stack = two_by_two(BarLayout::kStacked);
  negative_stack.series[0].values[0] = -1;
  Figure no_columns = figure_of(line({1}, {1}));
  no_columns.columns = 0;
  const BadFigure bad[] = {
      {"has no panels", Figure{}},
      {"at least 1 column", no_columns},
      {"panel 1: series 'a series' has 2 x for 1 y", figure_of(uneven)},
      {"panel 1: axis from 2 to 1 is empty", figure_of(backwards)},
      {"axis limit 0 cannot be drawn on a logarithmic axis", figure_of(log_from_zero)},
      {"series 'high' has 1 values for 2 categories", figure_of(short_series)},
      {"series 'low' stacks a negative value", figure_of(negative_stack)},
  };
  for (const BadFigure& each : bad) {
    const auto script = gnuplot_script(each.figure);
    ASSERT_FALSE(script.has_value()) << each.why;
    EXPECT_EQ(script.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(script.error().message, HasSubstr(each.why));
  }
}

TEST(GnuplotScript, PanelsFillRowsOfTheGivenColumns) {
  Figure figure;
  figure.panels.assign(5, line({1}, {1}));
  figure.columns = 2;
  figure.panel_width_px = 300;
  figure.panel_height_px = 200;
  const auto script = gnuplot_script(figure);
  ASSERT_TRUE(script.has_value());
  EXPECT_THAT(*script, HasSubstr("layout 3,2"));
  EXPECT_THAT(*script, HasSubstr("size 600,600"));
}

}  // namespace
}  // namespace spillway::plot
