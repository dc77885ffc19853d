// What a program has said of single pages of an allocation: that they are protected, locked, given
// back, or zeros in its children. Layer: heap. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway {

class PageMarks {
 public:
  enum Mark : std::uint8_t { kProtected = 1, kLocked = 2, kGone = 4, kWiped = 8 };

  explicit PageMarks(Bytes bytes) : marks_(round_up(bytes, kPageBytes) / kPageBytes) {}

  // Of all pages in which bytes from `begin` to `end` lie.
  void add(Bytes begin, Bytes end, Mark mark) {
    for_pages(begin, end, [&](std::uint8_t& page) { page = page | mark; });
  }
  void remove(Bytes begin, Bytes end, unsigned marks) {
    for_pages(begin, end,
              [&](std::uint8_t& page) { page = static_cast<std::uint8_t>(page & ~marks); });
  }
  // Whether one, or each, of the pages that there are has one of these marks.
  [[nodiscard]] bool any(Bytes begin, Bytes end, unsigned marks) const {
    return std::any_of(at(begin), at(end), [&](std::uint8_t page) { return (page & marks) != 0; });
  }
  [[nodiscard]] bool all(Bytes begin, Bytes end, unsigned marks) const {
    return std::all_of(at(begin), at(end), [&](std::uint8_t page) { return (page & marks) != 0; });
  }

  // visit(begin, end) of each run of pages that have all marks of `with` and none of `without`.
  template <typename Visit>
  void for_runs(unsigned with, unsigned without, const Visit& visit) const {
    const auto fits = [&](Bytes page) { return (marks_[page] & (with | without)) == with; };
    for (Bytes page = 0; page < marks_.size(); ++page) {
      const Bytes first = page;
      while (page < marks_.size() && fits(page)) {
        ++page;
      }
      if (page > first) {
        visit(first * kPageBytes, page * kPageBytes);
      }
    }
  }

 private:
  [[nodiscard]] std::vector<std::uint8_t>::const_iterator at(Bytes offset) const {
    const Bytes page = round_up(offset, kPageBytes) / kPageBytes;
    return marks_.begin() + static_cast<std::ptrdiff_t>(std::min<Bytes>(page, marks_.size()));
  }
  template <typename Change>
  void for_pages(Bytes begin, Bytes end, const Change& change) {
    const Bytes last = std::min<Bytes>(round_up(end, kPageBytes) / kPageBytes, marks_.size());
    for (Bytes page = begin / kPageBytes; page < last; ++page) {
      change(marks_[page]);
    }
  }

  std::vector<std::uint8_t> marks_;
};

}  // namespace spillway
