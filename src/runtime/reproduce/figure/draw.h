// Figures 11 to 19 as charts, ours beside what was published. Layer: runtime.
#pragma once

#include <optional>
#include <span>

#include "plot/figure.h"
#include "runtime/reproduce/figure/figures.h"
#include "runtime/reproduce/run.h"

namespace spillway::reproduce {

// nullopt where there is nothing of ours to draw. `study` has run and answers the figure's cases.
[[nodiscard]] std::optional<plot::Figure> draw(const FigureDefinition& figure,
                                               std::span<const ReferenceRow> reference,
                                               const Study& study);

}  // namespace spillway::reproduce
