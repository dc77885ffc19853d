// See report_html.h.
#include "runtime/report/report_html.h"

#include <fmt/format.h>

#include "base/units.h"

namespace spillway {
namespace {

// What is light or dark follows the reader's setting. Charts come with the colours of
// plot/figure.h, Okabe and Ito's palette, which people with any colour-blindness can tell apart;
// the rules of .chart find them by value, so that they follow the setting, too.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --back: #ffffff;
  --panel: #f5f7f9; --grid: #d8dee4; --live: #1b1f24; --device: #0072b2; --host: #d98200;
  --storage: #00845f; --between: #b0588f; --stall: #c44e00; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8eb; --soft: #a0a8b2; --back: #14171b;
  --panel: #1e2329; --grid: #363d46; --live: #f0f2f4; --device: #56b4e9; --host: #f0b03c;
  --storage: #2cc79b; --between: #dd95c3; --stall: #ff8a3d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 62rem; color: var(--text);
  background: var(--back); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.8rem 0 .2rem; }
p { margin: .4rem 0; }
code.command { display: block; max-height: 6rem; overflow: auto; padding: .5rem .8rem;
  background: var(--panel); border-radius: 6px; overflow-wrap: anywhere; white-space: pre-wrap; }
code { font: .9em ui-monospace, monospace; white-space: nowrap; }
.head { font-size: 1.08rem; }
.advice { padding: .6rem .9rem; background: var(--panel); border-left: 4px solid var(--device);
  border-radius: 0 6px 6px 0; }
.legend { color: var(--soft); font-size: .88rem; }
.chart { width: 100%; height: auto; }
.chart text, .chart tspan { font-family: system-ui, sans-serif; }
.chart [fill="black"] { fill: var(--text); }
.chart [stroke="black"], .chart [stroke="rgb( 64,  64,  64)"] { stroke: var(--soft); }
.chart [stroke="rgb(224, 224, 224)"] { stroke: var(--grid); }
.chart [stroke="rgb(102, 102, 102)"] { stroke: var(--live); }
.chart [stroke="rgb(  0, 114, 178)"] { stroke: var(--device); }
.chart [stroke="rgb(230, 159,   0)"] { stroke: var(--host); }
.chart [stroke="rgb(  0, 158, 115)"] { stroke: var(--storage); }
.chart [stroke="rgb(204, 121, 167)"] { stroke: var(--between); }
.chart [stroke="rgb(213,  94,   0)"] { stroke: var(--stall); }
.chart [fill="rgb(213,  94,   0)"] { fill: var(--stall); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--grid);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 11rem; }
th { color: var(--soft); font-weight: 600; }
.bar { width: 90px; height: 12px; vertical-align: middle; }
td i { display: inline-block; width: .6em; height: .6em; margin-right: .4em; border-radius: 2px; }
i.host { background: var(--host); } i.storage { background: var(--storage); }
i.fresh { background: var(--soft); }
.bar .host { fill: var(--host); } .bar .storage { fill: var(--storage); }
.bar .fresh { fill: var(--soft); }
.numbers { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .6rem; }
.numbers div { background: var(--panel); border-radius: 6px; padding: .5rem .8rem; }
.numbers b { display: block; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.numbers span { color: var(--soft); font-size: .85rem; }
@media print { body { max-width: none; } }
)css";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += (static_cast<unsigned char>(c) < ' ' && c != '\n') || c == '\x7f' ? ' ' : c;
    }
  }
  return escaped;
}

std::string seconds_text(double seconds) {
  return format_time(static_cast<TimeNs>(seconds * static_cast<double>(kNsPerS)));
}

std::string percent_text(double part, double whole) {
  constexpr double kWholeNumbersFrom = 9.95;
  const double percent = whole > 0 ? 100 * part / whole : 0;
  return percent == 0 || percent >= kWholeNumbersFrom ? fmt::format("{:.0f} %", percent)
                                                      : fmt::format("{:.1f} %", percent);
}

std::string page_start(std::string_view title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n"
      "<h1>{0}</h1>\n",
      escape_html(title), kStyle);
}

std::string page_end() { return "</body>\n</html>\n"; }

}  // namespace spillway
