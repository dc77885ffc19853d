// See tables.h.
#include "tables.h"

#include <algorithm>
#include <ctime>

#include "mapped_calls.h"
#include "torch_reports.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kNamedBytes = 4 * kMiB;

void write_table(const Device& device, const Buffer& table,
                 const std::vector<std::uint64_t>& words) {
  device.expect(device.calls.cuMemcpyHtoD_v2(table.address, words.data(), 8 * words.size()),
                "cuMemcpyHtoD");
}

// So many that nothing else stays on the device.
void use_others(const Device& device, std::vector<Buffer>& others, CuStream stream) {
  for (Buffer& other : others) {
    device.check(other, stream);
  }
}

std::vector<Buffer> make_others(const Device& device, CuStream stream) {
  std::vector<Buffer> others;
  for (std::uint64_t i = 0; i < 8; ++i) {
    others.push_back(device.allocate(4 * kMiB, stream));
    device.fill(others.back(), 50 + i, stream);
  }
  return others;
}

void require_one_more(const Device& device, const Buffer& buffer) {
  const std::vector<std::uint64_t> words = device.words_of(buffer);
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    device.require(words[i] == pattern(buffer.seed, i) + 1, "a word behind an address in a table");
  }
}

// Of this thread: what else runs on the machine does not count.
std::int64_t processor_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// The least that a call has taken.
template <typename Call>
int least_us(const Device& device, CuStream stream, const Call& call) {
  constexpr int kTimes = 10;
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < kTimes; ++i) {
    device.synchronize(stream);
    const std::int64_t start_ns = processor_ns();
    call();
    least = std::min(least, processor_ns() - start_ns);
  }
  return static_cast<int>(least / 1000);
}

}  // namespace

void kept_tables(const Device& device) {
  constexpr std::uint64_t kMany = 400;
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(8 * (kMany + 1), stream);
  Buffer named = device.allocate(kNamedBytes, stream);
  const CuAddress where = named.address;
  write_table(device, table, {where});
  device.free(named, stream);
  std::vector<Buffer> many;
  std::vector<std::uint64_t> words = {where};
  for (std::uint64_t i = 0; i < kMany; ++i) {
    many.push_back(device.allocate(512, stream));
    words.push_back(many.back().address);
    write_table(device, table, words);
  }
  named = device.allocate(kNamedBytes, stream);
  device.require(named.address == where, "the address that was there before");
  device.fill(named, 3, stream);
  std::vector<Buffer> others = make_others(device, stream);
  use_others(device, others, stream);
  device.synchronize(stream);
  device.add_listed(table, 1, named.words, stream);
  use_others(device, others, stream);
  device.synchronize(stream);
  require_one_more(device, named);
}

void replaced_tables(const Device& device) {
  constexpr std::uint64_t kTableWords = std::uint64_t{64} << 10U;
  constexpr std::uint64_t kElsewhere = 1024;  // words from its start
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(8 * kTableWords, stream);
  const Buffer within{.address = table.address + 8 * kElsewhere, .words = 2, .seed = 0};
  std::vector<Buffer> named;
  for (std::uint64_t i = 0; i < 24; ++i) {
    named.push_back(device.allocate(2 * kMiB, stream));
    device.fill(named.back(), i, stream);
  }
  const std::uint64_t rounds = 2 * named.size();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::vector<std::uint64_t> words = {named[round % named.size()].address,
                                              named[(round + 1) % named.size()].address};
    switch (round % 4) {
      case 0:
        write_table(device, table, words);
        break;
      case 1:
        device.expect(device.calls.cuMemcpyHtoDAsync_v2(table.address, words.data(),
                                                        8 * words.size(), stream),
                      "cuMemcpyHtoDAsync");
        break;
      case 2:  // more than is looked at
        write_table(device, table, std::vector<std::uint64_t>(kTableWords));
        write_table(device, within, words);
        break;
      default:
        device.expect(device.calls.cuMemsetD8Async(table.address, 0, 8 * kTableWords, stream),
                      "cuMemsetD8Async");
        device.synchronize(stream);
        write_table(device, table, {words[0]});
        write_table(device, {.address = table.address + 8, .words = 1, .seed = 0}, {words[1]});
    }
    device.add_listed(round % 4 == 2 ? within : table, words.size(), named[0].words, stream);
    device.synchronize(stream);
  }
  for (const Buffer& it : named) {
    const std::vector<std::uint64_t> words = device.words_of(it);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(it.seed, i) + 4,
                     "a word behind a table that was sent anew");
    }
  }
}

void shifted_tables(const Device& device) {
  constexpr std::uint64_t kElsewhere = 256;  // words from its start
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(4096, stream);
  const Buffer copied{.address = table.address + 8 * kElsewhere, .words = 1, .seed = 0};
  Buffer before = device.allocate(kNamedBytes, stream);
  Buffer after = device.allocate(kNamedBytes, stream);
  device.fill(before, 3, stream);
  device.fill(after, 4, stream);
  write_table(device, table, {before.address});
  device.expect(device.calls.cuMemcpyDtoDAsync_v2(copied.address, table.address, 8, stream),
                "cuMemcpyDtoDAsync");
  device.synchronize(stream);
  write_table(device, table, {after.address});
  std::vector<Buffer> others = make_others(device, stream);
  use_others(device, others, stream);
  device.synchronize(stream);
  device.add_listed(copied, 1, before.words, stream);
  device.add_listed(table, 1, after.words, stream);
  device.synchronize(stream);
  require_one_more(device, before);
  require_one_more(device, after);
}

void waiting_tables(const Device& device) {
  const CuStream first = device.stream();
  const CuStream second = device.stream();
  const Buffer flag = device.allocate(512, first);
  const Buffer table = device.allocate(512, first);
  Buffer before = device.allocate(kNamedBytes, first);
  Buffer after = device.allocate(kNamedBytes, first);
  device.fill(before, 3, first);
  device.fill(after, 4, first);
  write_table(device, flag, {0});
  write_table(device, table, {before.address});
  std::vector<Buffer> others = make_others(device, first);
  use_others(device, others, first);
  device.synchronize(first);
  const std::uint64_t word = after.address;
  device.expect(device.calls.cuStreamWaitValue64_v2(first, flag.address, 1, 0),
                "cuStreamWaitValue");
  device.expect(device.calls.cuMemcpyHtoDAsync_v2(table.address, &word, sizeof word, first),
                "cuMemcpyHtoDAsync");
  device.add_listed(table, 1, before.words, second);
  device.expect(device.calls.cuStreamWriteValue64_v2(second, flag.address, 1, 0),
                "cuStreamWriteValue");
  device.synchronize(second);
  device.add_listed(table, 1, after.words, first);
  device.synchronize(first);
  require_one_more(device, before);
  require_one_more(device, after);
}

void captured_tables(const Device& device) {
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(4096, stream);
  Buffer named = device.allocate(kNamedBytes, stream);
  device.fill(named, 3, stream);
  write_table(device, table, {named.address});
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 2), "cuStreamBeginCapture");
  device.add_listed(table, 1, named.words, stream);
  device.free(table, stream);
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  std::vector<Buffer> others = make_others(device, stream);
  use_others(device, others, stream);
  device.synchronize(stream);
  device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
  use_others(device, others, stream);
  device.synchronize(stream);
  require_one_more(device, named);
}

void dead_tables(const Device& device) {
  constexpr std::int64_t kTensorBytes = 1 << 20;
  const CuStream stream = device.stream();
  Buffer segment{.address = 0, .words = 2 * kMiB / 8, .seed = 0};
  device.expect(device.calls.cuMemAlloc_v2(&segment.address, 2 * kMiB), "cuMemAlloc");
  report_tensor(device, segment.address, kTensorBytes);
  // Together more than the budget.
  std::vector<Buffer> named = make_others(device, stream);
  std::vector<std::uint64_t> words;
  std::transform(named.begin(), named.end(), std::back_inserter(words),
                 [](const Buffer& it) { return it.address; });
  write_table(device, segment, words);
  report_tensor(device, segment.address, -kTensorBytes);
  for (std::uint64_t round = 0; round < 4; ++round) {
    report_tensor(device, segment.address, kTensorBytes);
    segment.words = kTensorBytes / 8;
    device.fill(segment, round, stream);
    device.check(segment, stream);
    device.synchronize(stream);
    report_tensor(device, segment.address, -kTensorBytes);
    use_others(device, named, stream);
  }
}

void full_lists(const Device& device) {
  constexpr std::uint64_t kWords = 4 * kMiB / 8;
  const CuStream stream = device.stream();
  Buffer named = device.allocate(4 * kMiB, stream);
  device.fill(named, 3, stream);
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 8 * kWords, 0), "cuMemHostAlloc");
  auto* const list = static_cast<std::uint64_t*>(memory);
  std::fill_n(list, kWords, 3);
  for (const char* const what : {"numbers", "addresses"}) {
    std::printf("%s %d\n", what,
                least_us(device, stream, [&] { device.add_listed_on_host(list, 0, 1, stream); }));
    for (std::uint64_t i = 0; i < kWords; ++i) {
      list[i] = named.address + 8 * i;
    }
  }
  device.synchronize(stream);
  device.expect(device.calls.cuMemFreeHost(memory), "cuMemFreeHost");
}

void moving_lists(const Device& device) {
  constexpr std::uint64_t kWords = 16 * kMiB / 8;
  constexpr std::uint64_t kPageWords = 512;
  const CuStream stream = device.stream();
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 8 * kWords, 0), "cuMemHostAlloc");
  auto* const list = static_cast<std::uint64_t*>(memory);
  std::fill_n(list, kWords, 3);
  std::vector<Buffer> named;
  for (std::uint64_t i = 0; i < 2; ++i) {
    named.push_back(device.allocate(kNamedBytes, stream));
    device.fill(named.back(), i, stream);
  }
  std::vector<Buffer> others = make_others(device, stream);
  // The first three times anywhere, then where it was, and in the page behind that.
  constexpr std::uint64_t kPlaces[] = {kWords - 2, 5, 700'001, 700'001, 5, 5 + kPageWords};
  for (const std::uint64_t place : kPlaces) {
    use_others(device, others, stream);
    device.synchronize(stream);
    list[place] = named[0].address;
    list[place + 1] = named[1].address;
    device.add_listed_on_host(list + place, 2, named[0].words, stream);
    device.synchronize(stream);
    list[place] = list[place + 1] = 3;
  }
  for (const Buffer& it : named) {
    const std::vector<std::uint64_t> words = device.words_of(it);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(it.seed, i) + std::size(kPlaces),
                     "a word behind a list in much memory");
    }
  }
  device.expect(device.calls.cuMemFreeHost(memory), "cuMemFreeHost");
}

void long_tables(const Device& device) {
  constexpr std::uint64_t kMost = 16384;
  const CuStream stream = device.stream();
  const std::vector<Buffer> tables = {device.allocate(8 * kMost, stream),
                                      device.allocate(8 * kMost, stream)};
  std::vector<std::uint64_t> words;
  for (std::uint64_t i = 0; i < kMost; ++i) {
    words.push_back(device.allocate(512, stream).address);
  }
  for (const std::uint64_t count : {kMost / 8, kMost}) {
    for (const Buffer& table : tables) {
      write_table(device, table,
                  {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count)});
    }
    // What one of them only reads, and both name.
    const int us = least_us(device, stream, [&] {
      device.pointwise({.address = tables[0].address, .words = 1},
                       {.address = tables[1].address, .words = 1}, Reads::kKnown, stream);
    });
    std::printf("addresses %d us %d\n", static_cast<int>(count), us);
  }
}

// All of one tensor, which lies across two pieces.
void interior_tables(const Device& device) {
  constexpr std::uint64_t kApart = 200;
  constexpr std::uint64_t kMost = kPiece / kApart;
  const CuStream stream = device.stream();
  const CuAddress start = reserve(device, 3 * kPiece);
  map_piece(device, start);
  map_piece(device, start + kPiece);
  const CuAddress tensor = start + kMiB;
  report_tensor(device, tensor, kPiece);
  const Buffer table = device.allocate(512, stream);
  const Buffer other = device.allocate(512, stream);
  press(device, stream);
  for (const std::uint64_t copies : {std::uint64_t{1}, kMost}) {
    for (std::uint64_t i = 0; i < copies; ++i) {
      write_table(device, table, {tensor + kApart * i});
    }
    const int us = least_us(device, stream, [&] {
      device.pointwise({.address = other.address, .words = 1},
                       {.address = table.address, .words = 1}, Reads::kKnown, stream);
    });
    std::printf("copies %d us %d\n", static_cast<int>(copies), us);
  }
}

}  // namespace spillway::cuda::test
