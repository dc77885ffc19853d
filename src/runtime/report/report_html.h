// What all of the report's HTML shares: escaping, numbers for people, the style sheet.
// Layer: runtime.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// Text as it may stand between tags and in quoted attributes. Characters that no page may hold
// become spaces: names come from programs and may hold anything.
[[nodiscard]] std::string escape_html(std::string_view text);

// "7.29 s"; "4.2 %", "38 %", and of nothing "0 %".
[[nodiscard]] std::string seconds_text(double seconds);
[[nodiscard]] std::string percent_text(double part, double whole);

// Around what the page holds.
[[nodiscard]] std::string page_start(std::string_view title);
[[nodiscard]] std::string page_end();

}  // namespace spillway
