// Which name somebody may have meant. Layer: cli.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

// Of `names` the one that differs by the fewest letters that must be put in, taken out or changed;
// empty where it takes more than a few.
[[nodiscard]] std::string_view nearest_name(std::string_view name,
                                            std::span<const std::string_view> names);

}  // namespace spillway
