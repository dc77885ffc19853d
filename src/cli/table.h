// Tables of text with aligned columns. Layer: cli.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

enum class Align { kLeft, kRight };

class TextTable {
 public:
  struct Column {
    std::string heading;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // A cell for each of the first columns; the columns after them stay empty.
  void add(std::vector<std::string> cells) { rows_.push_back({std::move(cells), {}}); }
  // The same, and then text that runs on over the columns after them.
  void add(std::vector<std::string> cells, std::string rest) {
    rows_.push_back({std::move(cells), std::move(rest)});
  }

  // A line for the headings and one for each row, every line with `indent` before it and no blanks
  // at its end. Columns are as wide as their widest cell and two blanks apart.
  [[nodiscard]] std::string text(std::string_view indent = "") const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string rest;
  };

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace spillway
