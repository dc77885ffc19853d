// See random_worker.h: what is chosen.
#include <algorithm>
#include <cstring>
#include <utility>

#include "random_worker.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kSmallBytes = 128 * kKiB;
constexpr std::uint64_t kMostBytes = 40 * kMiB;  // of all threads
constexpr std::size_t kMostBlocks = 40;
constexpr CuAddress kNobodys = 0x1000;

std::uint64_t all_bytes(const Blocks& blocks) {
  std::uint64_t sum = 0;
  for (const Block* const block : blocks.all()) {
    sum += block->shared ? 0 : block->bytes.size();
  }
  return sum;
}

}  // namespace

Worker::Worker(Common& common, std::size_t number)
    : common_(common),
      device_(common.device),
      number_(number),
      dice_(common.seed * 100 + number),
      lanes_(common.device, common.threads == 1 ? 5 : 3, common.threads == 1),
      most_bytes_(kMostBytes / common.threads) {
  for (const std::unique_ptr<Block>& shared : common.shared) {
    blocks_.add_shared(shared.get());
  }
  for (int i = 0; i < 3; ++i) {
    void* memory = nullptr;
    expect(device_.calls.cuMemHostAlloc(&memory, kMostBlockBytes, 0), "cuMemHostAlloc");
    Landing made;
    made.memory = static_cast<char*>(memory);
    landings_.push_back(std::move(made));
  }
}

// What is made again and again lets a policy find an iteration.
void Worker::run() {
  for (int round = 0; round < 2; ++round) {
    steps(60);
    const bool again = dice_.chance(50);
    const std::uint64_t seed = dice_.any();
    const Mark before = mark();
    keep_ = again ? &before : nullptr;
    for (int i = 0; i < (again ? 8 : 1); ++i) {
      dice_ = Dice(seed);
      steps(again ? 20 : 120);
      undo(before);
      if (dice_.chance(50)) {
        synchronize_all();
      }
    }
    keep_ = nullptr;
  }
  undo({});
  synchronize_all();
}

Worker::Mark Worker::mark() const {
  Mark made;
  made.blocks.insert(blocks_.all().begin(), blocks_.all().end());
  for (const Graph& graph : graphs_) {
    made.graphs.insert(&graph);
  }
  return made;
}

// What was not there then goes, and is looked at before.
void Worker::undo(const Mark& mark) {
  if (capture_) {
    end_capture();
  }
  for (auto graph = graphs_.begin(); graph != graphs_.end();) {
    const auto next = std::next(graph);
    if (!mark.graphs.contains(&*graph)) {
      destroy(graph);
    }
    graph = next;
  }
  const std::vector<Block*> all = blocks_.all();
  for (Block* const block : all) {
    if (block->shared || block->of_graph || mark.blocks.contains(block)) {
      continue;
    }
    Op op{.kind = Op::Kind::kCopyOut};
    op.a = block;
    op.bytes = block->bytes.size();
    op.landing = landing();
    op.way = static_cast<unsigned>(dice_.below(6));
    if (op.landing != nullptr) {
      put(std::move(op), any_lane());
    }
    free(block);
  }
}

void Worker::steps(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    history_.emplace_back();
    step();
    require_checks();
  }
}

void Worker::step() {
  const bool room = all_bytes(blocks_) < most_bytes_ && blocks_.all().size() < kMostBlocks;
  const std::uint64_t die = dice_.below(100);
  if (capture_ && dice_.chance(50)) {
    continue_capture();
  } else if (blocks_.all().size() < 5 || (die < 14 && room)) {
    new_block();
  } else if (die < 20) {
    free_one();
  } else if (die < 23 && room) {
    new_table();
  } else if (die < 27) {
    if (Block* const table = any_block(0, 0, dice_.chance(70) ? Block::Holds::kAddresses
                                                              : Block::Holds::kTables)) {
      write_table(table);
    }
  } else if (die < 33 && !capture_) {
    begin_capture();
  } else if (die < 45 && !graphs_.empty()) {
    launch(*std::next(graphs_.begin(), static_cast<long>(dice_.below(graphs_.size()))));
  } else if (die < 48) {
    values();
  } else if (die < 50) {
    refused();
  } else if (die < 52) {
    read_now();
  } else if (die < 54) {
    write_now();
  } else if (die < 56) {
    if (const std::size_t lane = any_lane(); true) {
      synchronize(lane);
    }
  } else {
    Op op;
    if (choose(op, 0)) {
      put(std::move(op), any_lane());
    }
  }
}

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
    const bool mine =
        !block->of_graph ||
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
  const bool nested = dice_.chance(40) && common_.on('t');
  if ((mode & kCaptured) != 0 && !common_.on('g')) return false;
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
  if (!common_.on('c') && (mode & kCaptured) && die < 85) return false;
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
    if (op.a == op.to && !common_.on('w')) return false;
    return op.a != op.to || op.a_at + op.bytes <= op.to_at || op.to_at + op.bytes <= op.a_at;
  }
  if (op.to == nullptr) return false;
  op.kind = Op::Kind::kCopyOut;
  op.a = std::exchange(op.to, nullptr);
  op.a_at = op.to_at;
  op.landing = landing((mode & kCaptured) != 0);
  return op.landing != nullptr;
}

// Written at once, as a whole.
void Worker::new_block() {
  const std::uint64_t die = dice_.below(100);
  const std::uint64_t bytes = die < 30   ? dice_.between(4 * kKiB, kSmallBytes)
                              : die < 45 ? dice_.between(kSmallBytes, kMiB)
                              : die < 70 ? dice_.between(kMiB, 2 * kMiB)
                              : die < 80 ? 2 * kMiB * dice_.between(1, 2)
                              : die < 95 ? dice_.between(2 * kMiB, 4 * kMiB)
                                         : dice_.between(4 * kMiB, kMostBlockBytes);
  Block* const block = allocate(bytes / 8 * 8, Block::Holds::kWords);
  Op op{.kind = Op::Kind::kFill};
  op.to = block;
  op.bytes = block->bytes.size();
  op.key = dice_.any();
  op.way = static_cast<unsigned>(dice_.below(6));
  switch (dice_.below(4)) {
    case 0:
      break;
    case 1:
      op.kind = Op::Kind::kSet;
      op.key %= 256;
      break;
    case 2: {  // in two parts
      op.kind = Op::Kind::kCopyIn;
      op.pinned = common_.pinned;
      op.bytes = dice_.between(1, block->bytes.size() - 1);
      Op rest = op;
      rest.to_at = op.bytes;
      rest.bytes = block->bytes.size() - op.bytes;
      rest.pinned += dice_.below(kPinnedBytes - rest.bytes + 1);
      put(std::move(rest), any_lane());
      break;
    }
    default:
      op.a = any_source(0, op.bytes);
      if (op.a != nullptr && op.a != block) {
        op.kind = Op::Kind::kCopyWithin;
      } else {
        op.a = nullptr;
      }
  }
  put(std::move(op), any_lane());
}

void Worker::new_table() {
  Block* const table = allocate(
      kTableBytes, dice_.chance(60) ? Block::Holds::kAddresses : Block::Holds::kTables);
  write_table(table);
}

// From the host, or as a copy of another.
void Worker::write_table(Block* table) {
  Op op{.kind = Op::Kind::kCopyIn};
  op.to = table;
  op.way = static_cast<unsigned>(dice_.below(6));
  Block* const other = any_block(0, 0, table->holds);
  if (other != table && other->entries > 0 && dice_.chance(30)) {
    op.kind = Op::Kind::kCopyWithin;
    op.a = other;
    op.bytes = kTableBytes;
    table->entries = other->entries;
    return put(std::move(op), any_lane());
  }
  const bool of_tables = table->holds == Block::Holds::kTables;
  std::vector<std::uint64_t> words;
  for (std::uint64_t i = dice_.between(1, of_tables ? 2 : 3); i > 0; --i) {
    Block* const named = any_block(0, 8, of_tables ? Block::Holds::kAddresses : Block::Holds::kWords);
    if (named == nullptr) {
      break;
    }
    words.push_back(named->address);
  }
  if (table->entries > 0 && dice_.chance(50)) {  // one of them
    words.resize(std::min<std::size_t>(words.size(), 1));
    op.to_at = 8 * dice_.below(table->entries);
  } else {
    table->entries = words.size();
    words.resize(kTableBytes / 8);
  }
  op.bytes = 8 * words.size();
  op.data.resize(op.bytes);
  if (op.bytes > 0) {
    std::memcpy(op.data.data(), words.data(), op.bytes);
    put(std::move(op), any_lane());
  }
}

void Worker::read_now() {
  Block* const block = any_block(0, 8);
  if (block == nullptr) {
    return;
  }
  trace("read now");
  lanes_.before_host(block->use, false);
  std::vector<char> found(dice_.between(1, block->bytes.size()));
  expect(device_.calls.cuMemcpyDtoH_v2(found.data(), block->address, found.size()), "cuMemcpyDtoH");
  if (!std::equal(found.begin(), found.end(), block->bytes.begin())) {
    fail("what was read now, last written by " + block->last);
  }
}

void Worker::write_now() {
  Block* const block = any_block(0, 8);
  if (block == nullptr) {
    return;
  }
  trace("write now");
  lanes_.before_host(block->use, true);
  const std::vector<char> data(dice_.between(1, block->bytes.size()),
                               static_cast<char>(dice_.any()));
  expect(device_.calls.cuMemcpyHtoD_v2(block->address, data.data(), data.size()), "cuMemcpyHtoD");
  std::copy(data.begin(), data.end(), block->bytes.begin());
  block->last = who("a copy that waits");
}

void Worker::free_one() {
  Block* const block = any_block(0, 0, dice_.chance(85)   ? Block::Holds::kWords
                                       : dice_.chance(60) ? Block::Holds::kAddresses
                                                          : Block::Holds::kTables);
  if (block != nullptr && (keep_ == nullptr || !keep_->blocks.contains(block)) &&
      !(capture_ && uses(capture_->graph.ops, block))) {
    free(block);
  }
}

// Streams that wait for values. The driver's caller knows their order, nobody between does; what
// is used meanwhile is little, so that it has room in any case.
void Worker::values() {
  const std::size_t first = any_lane();
  std::size_t second = any_lane();
  if (first == second) {
    return;
  }
  synchronize_all();
  trace("values");
  lanes_.set_by_values(true);
  for (std::uint64_t i = dice_.between(2, 8); i > 0; --i) {
    Op op;
    if (choose(op, kSmall)) {
      put(std::move(op), dice_.chance(50) ? first : second);
    }
  }
  lanes_.set_by_values(false);
  synchronize_all();
  if (common_.threads > 1 || !lanes_.may_be_captured(first) || !lanes_.may_be_captured(second)) {
    return;
  }
  // The stream that waits is told first.
  if (!common_.on('o')) return;
  std::vector<Op> before;
  std::vector<Op> behind;
  std::vector<Blocks::Used> used;
  const auto some = [&](std::vector<Op>* ops) {
    for (std::uint64_t i = dice_.between(1, 3); i > 0; --i) {
      Op op;
      if (choose(op, kSmall | kNoWaiting)) {
        prepare(op, &used);
        ops->push_back(std::move(op));
      }
    }
  };
  some(&before);
  // What one still reads the other writes over.
  if (Block* const block = any_block(0, 8); block != nullptr && block->bytes.size() <= 4 * kMiB) {
    Op read{.kind = Op::Kind::kCheck};
    read.a = block;
    read.bytes = block->words() * 8;
    prepare(read, &used);
    before.push_back(std::move(read));
    Op over{.kind = dice_.chance(50) ? Op::Kind::kSet : Op::Kind::kCopyIn};
    over.to = block;
    over.pinned = common_.pinned;
    over.key = dice_.below(256);
    over.bytes = block->bytes.size();
    prepare(over, &used);
    behind.push_back(std::move(over));
  }
  some(&behind);
  trace("wait first");
  lanes_.wait_first(first, second);
  for (Op& op : behind) {
    trace(words_of(op) + " on " + std::to_string(first));
    issue(op, lanes_.stream(first));
  }
  for (Op& op : before) {
    trace(words_of(op) + " on " + std::to_string(second));
    issue(op, lanes_.stream(second));
  }
  lanes_.write_after(second);
  synchronize_all();
}

void Worker::refused() {
  const Calls& calls = device_.calls;
  const std::size_t lane = any_lane();
  const CuStream stream = lanes_.stream(lane);
  Block* const block = any_block(0, 64);
  if (block == nullptr) {
    return;
  }
  trace("refused");
  const std::uint64_t bytes = dice_.chance(50) ? block->bytes.size() : 64;
  const CuAddress at = block->address + 8 * dice_.below((block->bytes.size() - bytes) / 8 + 1);
  constexpr CuResult kRefused = CuResult::kInvalidValue;
  switch (dice_.below(6)) {
    case 0:
    case 1:
      if (!common_.on('r')) return;
      return expect(calls.cuMemcpyDtoDAsync_v2(at, kNobodys, bytes, stream), "from nobody's",
                    kRefused);
    case 2:
      return expect(calls.cuMemcpyDtoDAsync_v2(kNobodys, at, bytes, stream), "to nobody's",
                    kRefused);
    case 3:
      return expect(calls.cuMemsetD8Async(kNobodys, 0, bytes, stream), "a memset of nobody's",
                    kRefused);
    case 4: {
      const LaunchWay how{
          .stream = stream, .way = static_cast<unsigned>(dice_.below(3)), .refused = true};
      return expect(common_.kernels.mix(how, at, at, block->address, bytes / 8, 1), "no grid",
                    kRefused);
    }
    default: {
      CuAddress none = 0;
      return expect(calls.cuMemAllocAsync(&none, 10'000 * kMiB, stream), "too much memory",
                    CuResult::kOutOfMemory);
    }
  }
}

}  // namespace spillway::cuda::test
