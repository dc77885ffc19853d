// See random_model.h.
#include "random_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "random_kernels.h"

namespace spillway::cuda::test {

std::string words_of(const Op& op) {
  constexpr std::array<const char*, 10> kNames{"fill",     "mix",   "pointwise", "listed",
                                               "nested",   "check", "copy in",   "copy within",
                                               "copy out", "memset"};
  std::string text = kNames[static_cast<std::size_t>(op.kind)];
  const auto place = [&text](const char* name, const Block* block, std::uint64_t at) {
    if (block != nullptr) {
      char words[80];
      std::snprintf(words, sizeof words, "%s%#llx+%llu", name,
                    static_cast<unsigned long long>(block->address),
                    static_cast<unsigned long long>(at));
      text += words;
    }
  };
  place(" to ", op.to, op.to_at);
  place(" from ", op.a, op.a_at);
  place(" and ", op.b, op.b_at);
  return text + " " + std::to_string(op.bytes) + " B (way " + std::to_string(op.way) + ")";
}

Block* Blocks::add(std::unique_ptr<Block> block) {
  Block* const made = block.get();
  owned_.push_back(std::move(block));
  all_.push_back(made);
  if (!made->of_graph) {
    by_address_[made->address] = made;
  }
  return made;
}

void Blocks::remove(const Block* block) {
  if (!block->of_graph) {
    by_address_.erase(block->address);
  }
  std::erase(all_, block);
  std::erase_if(owned_, [block](const auto& it) { return it.get() == block; });
}

Block* Blocks::find(CuAddress address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? nullptr : found->second;
}

bool Blocks::entries_of(Block& table, std::uint64_t at, std::uint64_t count, Block::Holds holds,
                        std::uint64_t bytes, std::vector<Block*>* found) const {
  for (std::uint64_t i = 0; i < count; ++i) {
    Block* const named = find(table.at(at)[i]);
    if (named == nullptr || named->holds != holds || named->bytes.size() < bytes) {
      return false;
    }
    found->push_back(named);
  }
  return true;
}

std::optional<std::vector<Blocks::Used>> Blocks::used_by(const Op& op) const {
  std::vector<Used> used;
  if (op.to != nullptr) {
    used.push_back({op.to, true});
  }
  for (Block* const read : {op.a, op.b}) {
    if (read != nullptr) {
      used.push_back({read, false});
    }
  }
  std::vector<Block*> tables;
  std::vector<Block*> named;
  if (op.kind == Op::Kind::kNested) {
    if (!entries_of(*op.a, op.a_at, op.count, Block::Holds::kAddresses, 8 * op.inner, &tables)) {
      return std::nullopt;
    }
    for (Block* const table : tables) {
      used.push_back({table, false});
      if (!entries_of(*table, 0, op.inner, Block::Holds::kWords, op.bytes, &named)) {
        return std::nullopt;
      }
    }
  } else if (op.kind == Op::Kind::kListed &&
             !entries_of(*op.a, op.a_at, op.count, Block::Holds::kWords, op.bytes, &named)) {
    return std::nullopt;
  }
  for (Block* const block : named) {
    used.push_back({block, true});
  }
  return used;
}

namespace {

std::uint64_t* at(Block* block, std::uint64_t offset) {
  return block == nullptr ? nullptr : block->at(offset);
}

// What has one target.
void apply_to(const Op& op, Block& target) {
  char* const bytes = target.bytes.data() + op.to_at;
  const std::uint64_t words = op.bytes / 8;
  if (op.kind == Op::Kind::kFill) {
    fill_words(target.at(op.to_at), words, op.key);
  } else if (op.kind == Op::Kind::kMix) {
    mix_words(target.at(op.to_at), at(op.a, op.a_at), at(op.b, op.b_at), words, op.key);
  } else if (op.kind == Op::Kind::kPointwise) {
    pointwise_words(target.at(op.to_at), at(op.a, op.a_at), at(op.b, op.b_at), words);
  } else if (op.kind == Op::Kind::kSet) {
    std::memset(bytes, static_cast<int>(op.key), op.bytes);
  } else if (op.kind == Op::Kind::kCopyIn) {
    std::memcpy(bytes, op.pinned != nullptr ? op.pinned : op.data.data(), op.bytes);
  } else if (op.kind == Op::Kind::kCopyWithin && op.a != nullptr) {
    std::memcpy(bytes, op.a->bytes.data() + op.a_at, op.bytes);
  }
}

}  // namespace

void Blocks::apply(Op& op, const std::string& who) const {
  if (op.kind == Op::Kind::kListed || op.kind == Op::Kind::kNested) {
    for (const Used& it : used_by(op).value_or(std::vector<Used>())) {
      if (it.writes) {
        mix_words(it.block->at(0), nullptr, nullptr, op.bytes / 8, op.key);
        it.block->last = who;
      }
    }
  } else if (op.to != nullptr) {
    apply_to(op, *op.to);
    op.to->last = who;
  } else if (op.a != nullptr && op.kind == Op::Kind::kCheck) {
    op.digest = digest_of(op.a->at(op.a_at), op.bytes / 8);
  } else if (op.a != nullptr && op.landing != nullptr) {
    const char* const from = op.a->bytes.data() + op.a_at;
    op.landing->expected.assign(from, from + op.bytes);
    op.landing->what = who + " of what was last written by " + op.a->last;
  }
}

}  // namespace spillway::cuda::test
