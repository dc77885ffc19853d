// See expandable.h.
#include "expandable.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "mapped_calls.h"
#include "torch_reports.h"

namespace spillway::cuda::test {
namespace {

// One segment, of which pieces are mapped as they are needed.
class Segment {
 public:
  Segment(const Device& device, std::uint64_t pieces)
      : device_(device), start_(reserve(device, pieces * kPiece)), is_mapped_(pieces) {}

  [[nodiscard]] bool is_free(std::uint64_t offset, std::uint64_t bytes) const {
    const auto behind = tensors_.lower_bound(start_ + offset + bytes);
    return offset + bytes <= is_mapped_.size() * kPiece &&
           (behind == tensors_.begin() ||
            std::prev(behind)->first + std::prev(behind)->second <= start_ + offset);
  }
  Buffer tensor(std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t i = offset / kPiece; i <= (offset + bytes - 1) / kPiece; ++i) {
      if (!is_mapped_[i]) {
        map_piece(device_, start_ + i * kPiece);
        is_mapped_[i] = true;
      }
    }
    const Buffer made = buffer_at(start_ + offset, bytes);
    tensors_[made.address] = bytes;
    report_tensor(device_, made.address, static_cast<std::int64_t>(bytes));
    return made;
  }
  void end(const Buffer& tensor) {
    tensors_.erase(tensor.address);
    report_tensor(device_, tensor.address, -static_cast<std::int64_t>(8 * tensor.words));
  }
  // Pieces in which nothing lives, when nothing runs.
  void unmap_free() {
    for (std::uint64_t i = 0; i < is_mapped_.size(); ++i) {
      if (is_mapped_[i] && is_free(i * kPiece, kPiece)) {
        unmap(device_, start_ + i * kPiece, kPiece);
        is_mapped_[i] = false;
      }
    }
  }
  void give_back() {
    unmap_free();
    free_reserved(device_, start_, is_mapped_.size() * kPiece);
  }

 private:
  const Device& device_;
  CuAddress start_;
  std::vector<bool> is_mapped_;
  std::map<CuAddress, std::uint64_t> tensors_;
};

void require_sum(const Device& device, const Buffer& sum, std::uint64_t first, std::uint64_t second,
                 std::uint64_t more) {
  const std::vector<std::uint64_t> words = device.words_of(sum);
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    device.require(words[i] == pattern(first, i) + pattern(second, i) + more, "a word of a sum");
  }
}

}  // namespace

// Each begins where another ends, in the middle of a piece or not.
void expandable_tensors(const Device& device) {
  constexpr std::uint64_t kBytes = 3 * kMiB;
  const CuStream stream = device.stream();
  Segment segment(device, 24);
  std::vector<Buffer> tensors;
  for (std::uint64_t i = 0; i < 16; ++i) {
    tensors.push_back(segment.tensor(i * kBytes, kBytes));
    device.fill(tensors.back(), i, stream);
  }
  for (std::uint64_t round = 0; round < 40; ++round) {
    device.rewrite(tensors[3], round, stream);
    device.rewrite(tensors[4], round + 7, stream);
    device.pointwise(tensors[9], tensors[4], Reads::kKnown, stream);
  }
  device.add(tensors[3], tensors[9], stream);
  for (Buffer& tensor : tensors) {
    if (&tensor != &tensors[3] && &tensor != &tensors[9]) {
      device.check(tensor, stream);
    }
  }
  device.synchronize(stream);
  require_sum(device, tensors[3], tensors[3].seed, tensors[4].seed, 1);
  for (const Buffer& tensor : tensors) {
    segment.end(tensor);
  }
  segment.give_back();
}

void expandable_deaths(const Device& device) {
  const CuStream stream = device.stream();
  Segment segment(device, 24);
  Buffer stays = segment.tensor(kMiB, 3 * kMiB);
  device.fill(stays, 5, stream);
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (std::uint64_t at = 4 + round % 2; at + 5 <= 48; at += 5) {
      Buffer passing = segment.tensor(at * kMiB, 5 * kMiB);
      device.fill(passing, round, stream);
      device.rewrite(passing, round + 1, stream);
      segment.end(passing);
    }
  }
  device.check(stays, stream);
  device.synchronize(stream);
  segment.end(stays);
  segment.give_back();
}

void expandable_graphs(const Device& device) {
  const CuStream stream = device.stream();
  Segment segment(device, 24);
  Buffer sum = segment.tensor(512 * 1024, 5 * kMiB);
  Buffer step = segment.tensor(6 * kMiB, 5 * kMiB);
  device.fill(step, 2, stream);
  Buffer last = segment.tensor(40 * kMiB, 5 * kMiB);
  device.synchronize(stream);
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
  Buffer passing = segment.tensor(15 * kMiB, 5 * kMiB);
  device.fill(passing, 9, stream);
  device.add(passing, step, stream);
  device.add(sum, passing, stream);
  segment.end(passing);
  Buffer small = segment.tensor(15 * kMiB, kMiB);
  device.fill(small, 11, stream);
  CuGraph graph = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  CuGraphExec exec = nullptr;
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  for (std::uint64_t round = 0; round < 3; ++round) {
    device.fill(sum, round, stream);
    device.fill(last, round, stream);
    press(device, stream);
    device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
    press(device, stream);
    device.check(last, stream);
    device.synchronize(stream);
    const std::vector<std::uint64_t> words = device.words_of(sum);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(round, i) + pattern(9, i) + pattern(2, i),
                     "a word that a graph wrote");
    }
  }
  device.expect(device.calls.cuGraphExecDestroy(exec), "cuGraphExecDestroy");
  segment.end(small);
}

void random_expandable(const Device& device) {
  constexpr std::uint64_t kUnit = 256 * 1024;
  constexpr std::uint64_t kPieces = 20;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 dice(seed);
    const auto below = [&](std::uint64_t end) { return dice() % end; };
    const std::array<CuStream, 2> streams{device.stream(), nullptr};
    Segment segment(device, kPieces);
    std::vector<Buffer> tensors;
    const auto synchronize_all = [&] {
      for (const CuStream stream : streams) {
        device.synchronize(stream);
      }
    };
    const auto end = [&](std::vector<Buffer>::iterator it) {
      segment.end(*it);
      std::swap(*it, tensors.back());
      tensors.pop_back();
    };
    for (std::uint64_t step = 1; step <= 200; ++step) {
      const std::uint64_t die = below(16);
      const CuStream stream = streams[below(2)];
      if (die < 5 || tensors.size() < 2) {
        const std::uint64_t offset = below(kPieces * kPiece / kUnit) * kUnit;
        const std::uint64_t bytes = (1 + below(14)) * kUnit;
        if (segment.is_free(offset, bytes)) {
          tensors.push_back(segment.tensor(offset, bytes));
          device.fill(tensors.back(), step, stream);
          device.synchronize(stream);
        }
        continue;
      }
      const auto it = tensors.begin() + static_cast<long>(below(tensors.size()));
      Buffer& other = tensors[below(tensors.size())];
      Buffer& one = *it;
      const std::uint64_t words = std::min(one.words, other.words);
      if (die < 8) {
        device.rewrite(one, step, stream);
      } else if (die < 10 && &one != &other) {
        const Buffer from{.address = other.address, .words = words, .seed = other.seed};
        const Buffer to{.address = one.address, .words = words, .seed = one.seed};
        device.pointwise(to, from, die % 2 == 0 ? Reads::kKnown : Reads::kTold, stream);
        device.check(other, stream);
        device.synchronize(stream);
        const std::vector<std::uint64_t> found = device.words_of(to);
        for (std::uint64_t i = 0; i < words; ++i) {
          device.require(found[i] == pattern(from.seed, i) + 1, "a word of a result");
        }
        device.fill(one, step, stream);
      } else if (die < 11) {
        // A table, which is a tensor as well.
        Buffer named{.address = one.address, .words = words, .seed = one.seed};
        device.check(one, stream);
        device.synchronize(stream);
        device.expect(device.calls.cuMemcpyHtoD_v2(other.address, &named.address, 8), "a table");
        if (&one != &other) {
          press(device, stream);
          device.add_listed(other, 1, words, stream);
          device.synchronize(stream);
          const std::vector<std::uint64_t> found = device.words_of(named);
          for (std::uint64_t i = 0; i < words; ++i) {
            device.require(found[i] == pattern(named.seed, i) + 1, "what a table names");
          }
        }
        device.fill(one, step, stream);
        device.fill(other, step, stream);
      } else if (die < 12) {
        press(device, stream);
      } else if (die < 15) {
        device.check(one, stream);
        end(it);
      } else {
        synchronize_all();
        segment.unmap_free();
      }
      device.synchronize(stream);
    }
    for (Buffer& tensor : tensors) {
      device.check(tensor, nullptr);
    }
    synchronize_all();
    while (!tensors.empty()) {
      end(tensors.begin());
    }
    segment.give_back();
  }
}

}  // namespace spillway::cuda::test
