// See random_model.h.
#include "random_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "random_kernels.h"

namespace spillway::cuda::test {

std::string words_of(const Op& op) {
  constexpr std::array<const char*, 10> kNames{
      "fill", "mix", "pointwise", "listed", "nested", "check",
      "copy in", "copy within", "copy out", "memset"};
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

void Blocks::apply(Op& op, const std::string& who) const {
  std::uint64_t* const to = op.to == nullptr ? nullptr : op.to->at(op.to_at);
  std::uint64_t* const a = op.a == nullptr ? nullptr : op.a->at(op.a_at);
  std::uint64_t* const b = op.b == nullptr ? nullptr : op.b->at(op.b_at);
  const std::uint64_t words = op.bytes / 8;
  if (op.to != nullptr) {
    op.to->last = who;
  }
  switch (op.kind) {
    case Op::Kind::kFill:
      return fill_words(to, words, op.key);
    case Op::Kind::kMix:
      return mix_words(to, a, b, words, op.key);
    case Op::Kind::kPointwise:
      return pointwise_words(to, a, b, words);
    case Op::Kind::kListed:
    case Op::Kind::kNested: {
      const std::optional<std::vector<Used>> used = used_by(op);
      for (const Used& it : *used) {
        if (it.writes) {
          mix_words(it.block->at(0), nullptr, nullptr, words, op.key);
          it.block->last = who;
        }
      }
      return;
    }
    case Op::Kind::kCheck:
      op.digest = digest_of(a, words);
      return;
    case Op::Kind::kCopyIn:
      std::memcpy(op.to->bytes.data() + op.to_at,
                  op.pinned != nullptr ? op.pinned : op.data.data(), op.bytes);
      return;
    case Op::Kind::kCopyWithin:
      std::memcpy(op.to->bytes.data() + op.to_at, op.a->bytes.data() + op.a_at, op.bytes);
      return;
    case Op::Kind::kCopyOut:
      if (op.landing != nullptr) {
        const char* const from = op.a->bytes.data() + op.a_at;
        op.landing->expected.assign(from, from + op.bytes);
        op.landing->what = who + " of what was last written by " + op.a->last;
      }
      return;
    case Op::Kind::kSet:
      std::memset(op.to->bytes.data() + op.to_at, static_cast<int>(op.key), op.bytes);
      return;
  }
}

}  // namespace spillway::cuda::test
