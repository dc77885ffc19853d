// Compared rows as files for other programs. Layer: runtime.
#pragma once

#include <span>
#include <string>

#include "runtime/reproduce/compare.h"

namespace spillway::reproduce {

// "within", "miss", "not run", "" where nothing is asked.
[[nodiscard]] std::string_view name_of(Verdict verdict);

// A header and a line for each row: figure, model, batch_size, policy, variation, metric,
// published, ours, deviation, state, verdict. Missing numbers are empty.
[[nodiscard]] std::string rows_csv(std::span<const ComparedRow> rows);

// The same as one JSON object, on one line. Missing numbers are null.
[[nodiscard]] std::string row_json(const ComparedRow& row);

}  // namespace spillway::reproduce
