// Which of this process's pages are anywhere, as the kernel has it. Layer: platform, host. Without
// faults, and exact also for pages that are swapped out or on their way to another frame, of which
// mincore knows nothing. Slow (a read of a file): for when something else has been refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway::host {

class PageTables {
 public:
  // As they are now. Ends the run where they cannot be read: whoever asks would have to guess where
  // the program's memory is.
  PageTables(const void* start, Bytes bytes);

  // Whether the page with that number, from the start, is in memory or on its way, or swapped out.
  [[nodiscard]] bool has(std::size_t page) const;
  [[nodiscard]] std::size_t pages() const { return entries_.size(); }

 private:
  std::vector<std::uint64_t> entries_;
};

}  // namespace spillway::host
