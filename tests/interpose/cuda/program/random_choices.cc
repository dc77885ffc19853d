// See random_worker.h: what an operation uses is chosen.
#include <algorithm>
#include <utility>

#include "random_worker.h"

namespace spillway::cuda::test {

std::size_t Worker::any_lane() {
  std::size_t lane = dice_.below(lanes_.count());
  while (lanes_.captured(lane)) {
    lane = (lane + 1) % lanes_.count();
  }
  return lane;
}

// That may be written.
Block* Worker::any_block(Mode mode, std::uint64_t bytes, Block::Holds holds) {
  std::vector<Block*> fit;
  for (Block* const block : blocks_.all()) {
    const bool mine = !block->of_graph ||
                      ((mode & kCaptured) != 0 &&
                       std::count(capture_->within.begin(), capture_->within.end(), block) != 0);
    if (mine && !block->shared && block->holds == holds && block->bytes.size() >= bytes &&
        ((mode & kSmall) == 0 || block->bytes.size() <= kSmallBytes)) {
      fit.push_back(block);
    }
  }
  return fit.empty() ? nullptr : fit[dice_.below(fit.size())];
}

// That is only read.
Block* Worker::any_source(Mode mode, std::uint64_t bytes) {
  if (!common_.shared.empty() && (mode & kSmall) == 0 && dice_.chance(20)) {
    Block* const shared = common_.shared[dice_.below(common_.shared.size())].get();
    if (shared->bytes.size() >= bytes) {
      return shared;
    }
  }
  return any_block(mode, bytes);
}

bool Worker::choose(Op& op, Mode mode) {
  op.way = static_cast<unsigned>(dice_.below(6));
  op.key = dice_.any();
  const std::uint64_t die = dice_.below(100);
  if (die < 50) {
    return choose_kernel(op, mode);
  }
  return die < 65 && (mode & kSmall) == 0 ? choose_table(op, mode) : choose_copy(op, mode);
}

bool Worker::choose_kernel(Op& op, Mode mode) {
  const auto range = [&](const Block& block, std::uint64_t bytes) {
    return 8 * dice_.below((block.bytes.size() - bytes) / 8 + 1);
  };
  op.to = any_block(mode, 8);
  if (op.to == nullptr) {
    return false;
  }
  op.bytes = dice_.chance(60) ? op.to->bytes.size() : 8 * dice_.between(1, op.to->words());
  op.to_at = range(*op.to, op.bytes);
  const std::uint64_t die = dice_.below(100);
  if (die < 10) {
    op.kind = Op::Kind::kFill;
    return true;
  }
  if (die < 30 && (mode & kCaptured) == 0) {
    op.kind = Op::Kind::kCheck;
    op.a = std::exchange(op.to, nullptr);
    op.a_at = op.to_at;
    return true;
  }
  op.kind = die < 50 ? Op::Kind::kPointwise : Op::Kind::kMix;
  if (op.kind == Op::Kind::kPointwise || dice_.chance(70)) {
    op.a = any_source(mode, op.bytes);
    if (op.a == nullptr) {
      return false;
    }
    op.a_at = range(*op.a, op.bytes);
    if (dice_.chance(50)) {
      op.b = any_source(mode, op.bytes);
      op.b_at = op.b == nullptr ? 0 : range(*op.b, op.bytes);
    }
  }
  return true;
}

// Of as many words as the smallest of what is named.
bool Worker::choose_table(Op& op, Mode mode) {
  const bool nested = dice_.chance(40);
  op.kind = nested ? Op::Kind::kNested : Op::Kind::kListed;
  op.a = any_block(mode, 0, nested ? Block::Holds::kTables : Block::Holds::kAddresses);
  if (op.a == nullptr || op.a->entries == 0) {
    return false;
  }
  op.count = dice_.between(1, op.a->entries);
  op.inner = 1;
  op.bytes = 8;
  const std::optional<std::vector<Blocks::Used>> used = blocks_.used_by(op);
  if (!used) {
    return (mode & kCaptured) != 0;  // it may be told of something until it runs
  }
  std::uint64_t least = kMostBlockBytes;
  for (const Blocks::Used& it : *used) {
    least = it.writes ? std::min(least, it.block->bytes.size()) : least;
  }
  op.bytes = 8 * dice_.between(1, least / 8);
  return true;
}

bool Worker::choose_copy(Op& op, Mode mode) {
  const bool words = dice_.chance(50);
  op.to = any_block(mode, 1);
  if (op.to == nullptr) {
    return false;
  }
  const auto range = [&](const Block& block, std::uint64_t bytes) {
    const std::uint64_t at = dice_.below(block.bytes.size() - bytes + 1);
    return words ? at / 8 * 8 : at;
  };
  op.bytes = dice_.chance(40) ? op.to->bytes.size() : dice_.between(1, op.to->bytes.size());
  op.bytes = words && op.bytes > 8 ? op.bytes / 8 * 8 : op.bytes;
  op.to_at = range(*op.to, op.bytes);
  const std::uint64_t die = dice_.below(100);
  if (die < 30) {
    op.kind = Op::Kind::kSet;
    op.key %= 256;
    return true;
  }
  if (die < 55) {
    op.kind = Op::Kind::kCopyIn;
    if (mode != 0 || dice_.chance(60)) {
      op.pinned = common_.pinned + dice_.below(kPinnedBytes - op.bytes + 1);
    } else {
      op.data.resize(op.bytes);
      const char value = static_cast<char>(op.key);
      for (std::size_t i = 0; i < op.data.size(); ++i) {
        op.data[i] = static_cast<char>(value + static_cast<char>(i / 13));
      }
    }
    return true;
  }
  if (die < 85 || (mode & kNoWaiting) != 0) {
    op.kind = Op::Kind::kCopyWithin;
    op.a = any_source(mode, op.bytes);
    if (op.a == nullptr) {
      return false;
    }
    op.a_at = range(*op.a, op.bytes);
    // What overlaps is nobody's promise.
    return op.a != op.to || op.a_at + op.bytes <= op.to_at || op.to_at + op.bytes <= op.a_at;
  }
  op.kind = Op::Kind::kCopyOut;
  op.a = std::exchange(op.to, nullptr);
  op.a_at = op.to_at;
  op.landing = landing((mode & kCaptured) != 0);
  return op.landing != nullptr;
}

}  // namespace spillway::cuda::test
