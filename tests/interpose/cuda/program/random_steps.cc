// See random_worker.h: what is chosen.
#include <algorithm>
#include <cstring>
#include <utility>

#include "random_worker.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
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
    if (Block* const table =
            any_block(0, 0, dice_.chance(70) ? Block::Holds::kAddresses : Block::Holds::kTables)) {
      write_table(table);
    }
  } else if (die < 33 && !capture_) {
    begin_capture();
  } else if (die < 45 && !graphs_.empty()) {
    launch_one();
  } else if (die < 48) {
    values();
  } else if (die < 50) {
    refused();
  } else if (die < 52) {
    read_now();
  } else if (die < 54) {
    write_now();
  } else if (die < 56) {
    synchronize(any_lane());
  } else {
    Op op;
    if (choose(op, 0)) {
      put(std::move(op), any_lane());
    }
  }
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
  Block* const table =
      allocate(kTableBytes, dice_.chance(60) ? Block::Holds::kAddresses : Block::Holds::kTables);
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
    Block* const named =
        any_block(0, 8, of_tables ? Block::Holds::kAddresses : Block::Holds::kWords);
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
  Block* const block = any_block(0, 0,
                                 dice_.chance(85)   ? Block::Holds::kWords
                                 : dice_.chance(60) ? Block::Holds::kAddresses
                                                    : Block::Holds::kTables);
  if (block != nullptr && (keep_ == nullptr || !keep_->blocks.contains(block)) &&
      !(capture_ && uses(capture_->graph.ops, block))) {
    free(block);
  }
}

void Worker::launch_one() {
  const auto at = static_cast<std::ptrdiff_t>(dice_.below(graphs_.size()));
  launch(*std::next(graphs_.begin(), at));
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
  // With other threads about, who waits may have the room that the other stream needs.
  if (common_.threads == 1 && lanes_.may_be_captured(first) && lanes_.may_be_captured(second)) {
    wait_first(first, second);
  }
}

// The stream that waits is told first. What it is told must not wait for the device.
void Worker::wait_first(std::size_t first, std::size_t second) {
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
