// Which node is inside which, and which part of a Chakra trace is the iteration. Layer: trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "trace/import/chakra/chakra_file.h"
#include "trace/import/iteration_choice.h"

namespace spillway {

// By position in ChakraFile::nodes.
class ChakraTree {
 public:
  static constexpr std::uint32_t kNone = ~0U;

  // kInvalidInput where nodes are nested more than 256 deep.
  [[nodiscard]] static Result<ChakraTree> of(const ChakraFile& file);

  [[nodiscard]] std::uint32_t parent(std::uint32_t node) const { return parents_[node]; }
  // The last node that began inside of it; itself where there is none.
  [[nodiscard]] std::uint32_t last(std::uint32_t node) const { return lasts_[node]; }
  // The operators that began in the range, in the order in which they ended.
  [[nodiscard]] std::vector<std::uint32_t> operators(const ChakraFile& file,
                                                     const IterationRange& range) const;
  // The nearest operator around the node, kNone where there is none.
  [[nodiscard]] std::uint32_t operator_around(const ChakraFile& file, std::uint32_t node) const;

 private:
  std::vector<std::uint32_t> parents_;
  std::vector<std::uint32_t> lasts_;
};

// Positions are those of nodes.
[[nodiscard]] Result<IterationRange> choose_iteration(const ChakraFile& file,
                                                      const ChakraTree& tree,
                                                      std::optional<std::uint64_t> wanted);

[[nodiscard]] inline bool is_operator(const ChakraNode& node) {
  return node.has_schema || node.is_kernel;
}

}  // namespace spillway
