// See report_html.h.
#include "runtime/host/report_html.h"

#include <fmt/format.h>

#include "base/units.h"

namespace spillway {
namespace {

// The colours of the tiers are from Okabe and Ito's palette, which people with any colour-blindness
// can tell apart, and lines differ in width and dashes besides. What is light or dark follows the
// reader's setting.
constexpr std::string_view kStyle = R"(
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
.legend span { margin-right: 1.2rem; white-space: nowrap; }
.key { width: 28px; height: 10px; margin-right: .4rem; }
.chart { width: 100%; height: auto; }
.chart text { font-family: system-ui, sans-serif; }
.tick { font-size: 12px; fill: var(--soft); }
.note { font-size: 12px; fill: var(--text); stroke: var(--back); stroke-width: 4px;
  paint-order: stroke; }
.grid { stroke: var(--grid); }
.zero, .mark { stroke: var(--soft); }
.line { fill: none; stroke-width: 2; }
.fill { stroke: none; fill-opacity: .25; }
.limit { fill: none; stroke-width: 1.5; stroke-dasharray: 2 4; }
.span { fill: transparent; }
.span:hover { fill: var(--soft); fill-opacity: .25; }
.live { stroke: var(--live); stroke-width: 1.2; }
.device { stroke: var(--device); stroke-width: 2.6; }
.host { stroke: var(--host); }
.storage { stroke: var(--storage); stroke-dasharray: 9 3; }
.between { stroke: var(--between); stroke-dasharray: 4 3; }
.stall { stroke: var(--stall); }
.limit.device, .limit.host, .limit.storage { stroke-width: 1.5; stroke-dasharray: 2 4; }
.fill.device { fill: var(--device); } .fill.host { fill: var(--host); }
.fill.storage { fill: var(--storage); } .fill.stall { fill: var(--stall); }
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
.bar .host { fill: var(--host); stroke: none; } .bar .storage { fill: var(--storage); stroke: none; }
.bar .fresh { fill: var(--soft); }
.numbers { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .6rem; }
.numbers div { background: var(--panel); border-radius: 6px; padding: .5rem .8rem; }
.numbers b { display: block; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.numbers span { color: var(--soft); font-size: .85rem; }
@media print { body { max-width: none; } .span { display: none; } }
)";

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

std::string page_start() {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Spillway: report of a run</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>Spillway: report of a run</h1>\n",
      kStyle);
}

std::string page_end() { return "</body>\n</html>\n"; }

}  // namespace spillway
