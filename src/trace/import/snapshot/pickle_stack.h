// What the instructions of a pickle work on: values that were made, a stack of them with marks, and
// those that are kept to be used again. Layer: trace.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "trace/import/snapshot/pickle.h"

namespace spillway {

// The first failure sticks; take() returns it, with the byte of the instruction.
class PickleStack {
 public:
  using Id = Pickle::Id;

  // Where the instruction begins that comes next.
  void instruction_at(std::uint64_t byte) { at_ = byte; }
  [[nodiscard]] bool good() const { return status_.has_value(); }
  void fail(std::string_view what);

  // Each makes a value and pushes it.
  void make(PickleKind kind, std::int64_t number);
  void make_text(std::string_view text);
  void make_collection(PickleKind kind, std::vector<Id> elements);

  void mark();
  // The topmost values, none of which is below the last mark.
  [[nodiscard]] std::vector<Id> pop(std::size_t count);
  // All above the last mark, and the mark.
  [[nodiscard]] std::vector<Id> pop_to_mark();
  // To the list or dictionary at the top.
  void add_to(PickleKind kind, const std::vector<Id>& values);

  // Keeps the top under that number, or under the next; pushes what was kept.
  void keep(std::uint64_t number);
  void keep_next();
  void use_again(std::uint64_t number);

  // The one value that is left is the whole.
  void end();
  // No further use.
  [[nodiscard]] Result<Pickle> take();

 private:
  void count_reference();
  void push(Id id);

  Status status_;
  std::uint64_t at_ = 0;  // of the instruction
  Pickle pickle_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Id> memo_;
  std::uint64_t references_ = 0;
};

}  // namespace spillway
