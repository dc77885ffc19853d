// What the random scenario keeps on the host: the bytes that each block of device memory must hold,
// and operations that change them here as the device does there. Test program.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver_ways.h"

namespace spillway::cuda::test {

inline constexpr std::size_t kMostStreams = 6;

// How far the streams had come when they used something last: operations issued, by stream.
struct Use {
  std::array<std::uint64_t, kMostStreams> reads{};
  std::array<std::uint64_t, kMostStreams> writes{};
};

// Device memory.
struct Block {
  enum class Holds : std::uint8_t { kWords, kAddresses, kTables };
  CuAddress address = 0;
  std::vector<char> bytes;  // what it must hold
  Holds holds = Holds::kWords;
  std::uint64_t entries = 0;  // of a table
  bool shared = false;        // of several threads, which only read it
  bool of_graph = false;      // allocated on a stream that was captured
  bool of_context = false;    // no pool's: a free waits for who uses it
  bool freed = false;         // there, too
  std::string last;           // who wrote it last, in words
  Use use;

  [[nodiscard]] std::uint64_t words() const { return bytes.size() / 8; }
  [[nodiscard]] std::uint64_t* at(std::uint64_t offset) {
    return reinterpret_cast<std::uint64_t*>(bytes.data() + offset);
  }
};

// Pinned host memory that a copy out fills.
struct Landing {
  char* memory = nullptr;
  std::vector<char> expected;
  std::string what;
  bool taken = false;
  bool of_graph = false;  // as long as that lives, otherwise until its stream has been waited for
  bool pending = false;   // filled by what the host has not waited for
  std::size_t stream = 0;
  std::uint64_t number = 0;  // of that operation
};

struct Op {
  enum class Kind : std::uint8_t {
    kFill,
    kMix,
    kPointwise,
    kListed,
    kNested,
    kCheck,
    kCopyIn,
    kCopyWithin,
    kCopyOut,
    kSet
  };
  Kind kind = Kind::kFill;
  Block* to = nullptr;
  Block* a = nullptr;
  Block* b = nullptr;
  std::uint64_t to_at = 0;  // bytes from their starts
  std::uint64_t a_at = 0;
  std::uint64_t b_at = 0;
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;    // or a memset's byte
  std::uint64_t count = 0;  // entries of a table
  std::uint64_t inner = 0;
  std::vector<char> data{};      // what is copied in, if it is pageable
  const char* pinned = nullptr;  // or where it is, if it is pinned
  Landing* landing = nullptr;
  unsigned way = 0;
  std::uint64_t digest = 0;  // by `apply`
};

[[nodiscard]] std::string words_of(const Op& op);

// All blocks of a worker, in the order in which they were made.
class Blocks {
 public:
  Block* add(std::unique_ptr<Block> block);
  void add_shared(Block* block) { all_.push_back(block); }
  void remove(const Block* block);
  [[nodiscard]] const std::vector<Block*>& all() const { return all_; }
  // One that a table may name.
  [[nodiscard]] Block* find(CuAddress address) const;

  // What an operation uses as the tables stand now; nullopt if it would use what is not there.
  struct Used {
    Block* block;
    bool writes;
  };
  [[nodiscard]] std::optional<std::vector<Used>> used_by(const Op& op) const;
  // Changes the model as the device will be changed, and fills in what the operation is to find.
  void apply(Op& op, const std::string& who) const;

 private:
  // What a table's first entries name, all of one kind and large enough.
  [[nodiscard]] bool entries_of(Block& table, std::uint64_t at, std::uint64_t count,
                                Block::Holds holds, std::uint64_t bytes,
                                std::vector<Block*>* found) const;

  std::vector<std::unique_ptr<Block>> owned_;
  std::vector<Block*> all_;
  std::map<CuAddress, Block*> by_address_;
};

}  // namespace spillway::cuda::test
