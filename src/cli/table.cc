// Aligning columns. See table.h.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {
namespace {

void end_line(std::string& out) {
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

}  // namespace

std::string TextTable::text(std::string_view indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_[i].heading.size();
    for (const Row& row : rows_) {
      width = i < row.cells.size() ? std::max(width, row.cells[i].size()) : width;
    }
    widths.push_back(width);
  }
  std::string out;
  const auto cell = [&](std::size_t i, std::string_view text) {
    out += i == 0 ? indent : "  ";
    out += columns_[i].align == Align::kLeft ? fmt::format("{:<{}}", text, widths[i])
                                             : fmt::format("{:>{}}", text, widths[i]);
  };
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    cell(i, columns_[i].heading);
  }
  end_line(out);
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      cell(i, row.cells[i]);
    }
    if (!row.rest.empty()) {
      out += "  ";
      out += row.rest;
    }
    end_line(out);
  }
  return out;
}

}  // namespace spillway
