// Texts that are handed on as views: each is kept once, for as long as this lives. Layer: platform,
// common. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace spillway {

class KeptNames {
 public:
  // A program that makes up names as it goes must not fill memory with them.
  static constexpr std::size_t kMost = std::size_t{1} << 16U;

  // The same text. Behind the first kMost, for one that is new: `full`, which must stay valid.
  std::string_view keep(std::string_view name, std::string_view full) {
    const auto known = names_.find(name);
    if (known != names_.end()) {
      return *known;
    }
    return names_.size() < kMost ? std::string_view(*names_.emplace(name).first) : full;
  }

 private:
  std::set<std::string, std::less<>> names_;
};

}  // namespace spillway
