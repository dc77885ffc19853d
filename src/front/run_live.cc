// See run_live.h.
#include "front/run_live.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace spillway {
namespace {

constexpr std::size_t kBarColumns = 10;

std::string bar(double fraction) {
  const auto full = static_cast<std::size_t>(
      std::lround(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(kBarColumns)));
  return std::string(full, '#') + std::string(kBarColumns - full, '-');
}

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string live_line(const std::string& sample_json, std::size_t columns) {
  const nlohmann::json sample = nlohmann::json::parse(sample_json, nullptr, false);
  if (!sample.is_object() || !sample.contains("used_bytes") || !sample.contains("budget_bytes")) {
    return "";
  }
  std::string line;
  for (const char* tier : {"device", "host", "storage"}) {
    const auto budget = sample["budget_bytes"].value(tier, Bytes{0});
    const auto used = sample["used_bytes"].value(tier, Bytes{0});
    if (budget > 0) {
      line += fmt::format("{} [{}] {}  ", tier,
                          bar(static_cast<double>(used) / static_cast<double>(budget)),
                          format_bytes(used));
    }
  }
  line += fmt::format("faults {}  stalled {:.1f} s", sample.value("page_faults", 0ULL),
                      sample.value("stalled_s", 0.0));
  return line.substr(0, columns > 1 ? columns - 1 : 0);
}

RunLive::RunLive(std::string folder)
    : folder_(std::move(folder)), shown_(::isatty(STDERR_FILENO) == 1) {}

void RunLive::redraw() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (entry.path().extension() != ".live") {
      continue;
    }
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string line = live_line(text, terminal_columns());
    if (!line.empty()) {
      std::fputs(("\r\033[K" + line).c_str(), stderr);
      drawn_ = true;
      return;
    }
  }
}

void RunLive::clear() {
  if (drawn_) {
    std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }
}

}  // namespace spillway
