// Names and devices that occur again and again, kept once. Layer: trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "trace/limits.h"

namespace spillway {

class Names {
 public:
  // kInvalidInput where the file has more text of names than a trace may have.
  [[nodiscard]] Result<std::uint32_t> add(std::string_view name) {
    const auto at = numbers_.find(std::string(name));
    if (at != numbers_.end()) {
      return at->second;
    }
    bytes_ += name.size();
    if (bytes_ > kMaxTotalTextBytes) {
      return make_error(ErrorCode::kInvalidInput, "names exceed {} bytes together",
                        kMaxTotalTextBytes);
    }
    const auto number = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name);
    numbers_.emplace(name, number);
    return number;
  }
  [[nodiscard]] const std::string& operator[](std::uint32_t number) const { return names_[number]; }
  [[nodiscard]] std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::uint64_t bytes_ = 0;
};

}  // namespace spillway
