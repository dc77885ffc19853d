// Reading the CSV file. See reference.h.
#include "runtime/reproduce/reference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace spillway::reproduce {
namespace {

constexpr std::string_view kHeader = "figure,model,batch_size,policy,variation,metric,value";
constexpr std::size_t kColumns = 7;
constexpr std::size_t kLargestFile = std::size_t{16} << 20U;

Result<std::array<std::string_view, kColumns>> split(std::string_view line) {
  std::array<std::string_view, kColumns> cells;
  const auto commas = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
  if (commas + 1 != kColumns) {
    return make_error(ErrorCode::kInvalidInput, "{} columns; there must be {}", commas + 1,
                      kColumns);
  }
  for (std::string_view& cell : cells) {
    const std::size_t end = std::min(line.find(','), line.size());
    cell = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return cells;
}

// The whole of `text` as a number.
template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Becomes a part of a file's name, so it must not lead elsewhere.
bool is_model_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+';
  });
}

Result<ReferenceRow> parse_row(std::string_view line) {
  const auto cells = split(line);
  if (!cells) {
    return tl::unexpected<Error>(cells.error());
  }
  const auto& [figure, model, batch_size, policy, variation, metric, value] = *cells;
  ReferenceRow row;
  row.figure = figure;
  row.subject.model = model;
  row.subject.policy = policy;
  if (!is_model_name(model)) {
    return make_error(ErrorCode::kInvalidInput,
                      "model '{}' is not a name of letters, digits, '_', '-' and '+'", model);
  }
  if (!parse_number(batch_size, row.subject.batch_size)) {
    return make_error(ErrorCode::kInvalidInput, "batch_size '{}' is not a whole number",
                      batch_size);
  }
  Result<Variation> parsed_variation = parse_variation(variation);
  if (!parsed_variation) {
    return tl::unexpected<Error>(parsed_variation.error());
  }
  row.subject.variation = *parsed_variation;
  const std::optional<Metric> found_metric = find_metric(metric);
  if (!found_metric) {
    return make_error(ErrorCode::kInvalidInput, "metric '{}' is not known", metric);
  }
  row.metric = *found_metric;
  if (!value.empty()) {
    double number = 0;
    if (!parse_number(value, number) || !std::isfinite(number) || number < 0) {
      return make_error(ErrorCode::kInvalidInput, "value '{}' is not a number of at least 0",
                        value);
    }
    row.value = number;
  }
  return row;
}

}  // namespace

Result<std::vector<ReferenceRow>> parse_reference(std::string_view text, std::string_view name) {
  std::vector<ReferenceRow> rows;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (number == 1) {
      if (line != kHeader) {
        return make_error(ErrorCode::kInvalidInput, "{}: line 1: the first line must be '{}'", name,
                          kHeader);
      }
      continue;
    }
    if (line.empty()) {
      continue;
    }
    Result<ReferenceRow> row = parse_row(line);
    if (!row) {
      return make_error(ErrorCode::kInvalidInput, "{}: line {}: {}", name, number,
                        row.error().message);
    }
    rows.push_back(std::move(*row));
  }
  if (rows.empty()) {
    return make_error(ErrorCode::kInvalidInput, "{}: there are no numbers in it", name);
  }
  return rows;
}

Result<std::vector<ReferenceRow>> read_reference(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return make_error(ErrorCode::kInvalidInput, "{}: no such file", path.string());
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    return make_error(ErrorCode::kIo, "{}: cannot read the reference file", path.string());
  }
  if (!file.eof()) {
    return make_error(ErrorCode::kInvalidInput, "{}: larger than {}, which no reference file is",
                      path.string(), format_bytes(kLargestFile));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_reference(text, path.string());
}

}  // namespace spillway::reproduce
