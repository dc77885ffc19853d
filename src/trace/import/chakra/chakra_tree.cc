// Nodes begin before those inside of them, so parents have smaller positions. Layer: trace.
#include "trace/import/chakra/chakra_tree.h"

#include <algorithm>

namespace spillway {

Result<ChakraTree> ChakraTree::of(const ChakraFile& file) {
  constexpr std::uint32_t kDeepest = 256;
  const std::vector<ChakraNode>& nodes = file.nodes;
  const auto count = static_cast<std::uint32_t>(nodes.size());
  ChakraTree tree;
  tree.parents_.assign(count, kNone);
  tree.lasts_.resize(count);
  std::vector<std::uint32_t> depths(count, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    tree.lasts_[i] = i;
    const auto before = nodes.begin() + i;
    const auto parent =
        std::lower_bound(nodes.begin(), before, nodes[i].parent,
                         [](const ChakraNode& node, std::uint64_t id) { return node.id < id; });
    if (parent == before || parent->id != nodes[i].parent) {
      continue;
    }
    tree.parents_[i] = static_cast<std::uint32_t>(parent - nodes.begin());
    depths[i] = depths[tree.parents_[i]] + 1;
    if (depths[i] > kDeepest) {
      return make_error(ErrorCode::kInvalidInput,
                        "nodes: the one with id {} is nested more than {} deep", nodes[i].id,
                        kDeepest);
    }
  }
  for (std::uint32_t i = count; i-- > 0;) {
    if (const std::uint32_t parent = tree.parents_[i]; parent != kNone) {
      tree.lasts_[parent] = std::max(tree.lasts_[parent], tree.lasts_[i]);
    }
  }
  return tree;
}

std::vector<std::uint32_t> ChakraTree::operators(const ChakraFile& file,
                                                 const IterationRange& range) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < file.nodes.size(); ++i) {
    if (range.contains(i) && is_operator(file.nodes[i])) {
      found.push_back(i);
    }
  }
  std::sort(found.begin(), found.end(), [this](std::uint32_t a, std::uint32_t b) {
    return lasts_[a] != lasts_[b] ? lasts_[a] < lasts_[b] : a > b;
  });
  return found;
}

std::uint32_t ChakraTree::operator_around(const ChakraFile& file, std::uint32_t node) const {
  do {
    node = parents_[node];
  } while (node != kNone && !is_operator(file.nodes[node]));
  return node;
}

Result<IterationRange> choose_iteration(const ChakraFile& file, const ChakraTree& tree,
                                        std::optional<std::uint64_t> wanted) {
  IterationChoice choice;
  for (std::uint32_t i = 0; i < file.nodes.size(); ++i) {
    const ChakraNode& node = file.nodes[i];
    if (is_operator(node)) {
      continue;
    }
    if (const Status status = choice.annotation(file.names[node.name], i, tree.last(i) + 1ULL);
        !status) {
      return tl::unexpected(status.error());
    }
  }
  return choice.choose(wanted);
}

}  // namespace spillway
