// Data out of a Python pickle, without running it. Layer: trace.
//
// A pickle is a program for a machine with a stack that may call any function of Python. Data alone
// (dictionaries, lists, tuples, text, numbers, None, True, False) needs a few of its instructions,
// and only those are known here: any other ends the reading, so nothing that a file says is ever
// called.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "trace/format/byte_source.h"
#include "trace/import/names.h"

namespace spillway {

enum class PickleKind : std::uint8_t { kNone, kFlag, kInteger, kReal, kText, kList, kTuple, kDict };

// Values refer to each other by number; a value may be in several lists, and a list in itself.
class Pickle {
 public:
  using Id = std::uint32_t;

  // Of protocol 2 to 5, all of `bytes`, of at most kMaxPickledValues values and as many references
  // to them. kInvalidInput with the byte, no file name.
  [[nodiscard]] static Result<Pickle> read(ByteSource& bytes);

  [[nodiscard]] Id root() const { return root_; }
  [[nodiscard]] PickleKind kind(Id id) const { return values_[id].kind; }
  // Elements of a list or tuple; of another value none.
  [[nodiscard]] const std::vector<Id>& elements(Id id) const;
  // What the dictionary has under that text, of at most 64 keys that are looked at; nothing where
  // it is no dictionary or has none.
  [[nodiscard]] std::optional<Id> member(Id id, std::string_view key) const;
  // The same where the value is of that kind.
  [[nodiscard]] std::optional<std::int64_t> integer(Id id, std::string_view key) const;
  [[nodiscard]] const std::string* text(Id id, std::string_view key) const;

 private:
  friend class PickleStack;

  struct Value {
    PickleKind kind = PickleKind::kNone;
    std::int64_t number = 0;  // the integer; the number of the text; where the elements are
  };

  std::vector<Value> values_;
  Names texts_;
  // Of a dictionary keys and values in turn.
  std::vector<std::vector<Id>> elements_;
  Id root_ = 0;
};

}  // namespace spillway
