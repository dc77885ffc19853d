// The elements of one long list in a JSON document, one at a time. Layer: trace.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "trace/format/byte_source.h"

namespace spillway {

// What one element holds at most; a document may have any number of them.
inline constexpr std::size_t kMaxElementValues = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxElementTextBytes = std::size_t{16} << 20U;
inline constexpr std::size_t kMaxElementDepth = 64;

// Reads the object that is the whole of `text` and calls `on_element` with each element of its
// field `list`, and `on_field` with the name and value of each other field, in the order of the
// file. Only one of these values is held at a time, within the limits above. A failure that a
// callback returns ends the reading; where it was about an element, "LIST[INDEX]: " is put before
// it. kInvalidInput with that place, or the byte where the text is not JSON; no file name.
[[nodiscard]] Status read_json_elements(
    ByteSource& text, std::string_view list,
    const std::function<Status(const nlohmann::json& element)>& on_element,
    const std::function<Status(const std::string& name, const nlohmann::json& value)>& on_field);

// The field `name` where `object` has it and it is of that kind; else nothing.
[[nodiscard]] const nlohmann::json* list_of(const nlohmann::json& object, const char* name);
[[nodiscard]] const nlohmann::json* object_of(const nlohmann::json& object, const char* name);
[[nodiscard]] const std::string* text_of(const nlohmann::json& object, const char* name);
[[nodiscard]] std::optional<std::uint64_t> whole_of(const nlohmann::json& object, const char* name);
[[nodiscard]] std::optional<std::int64_t> integer_of(const nlohmann::json& object,
                                                     const char* name);
[[nodiscard]] std::optional<double> number_of(const nlohmann::json& object, const char* name);
// A number without sign, point or exponent.
[[nodiscard]] std::optional<std::uint64_t> whole(const nlohmann::json& value);

}  // namespace spillway
