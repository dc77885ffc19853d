// What each memory pool of a program has of a heap: in use, as it was asked for, and in all, with
// what is kept for the next; the highest of both, and how much it may have in use. The memory of
// all pools lies together, and what one has freed another may be given. Layer: heap. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway {

class PoolAccounts {
 public:
  using Pool = std::uint32_t;
  static constexpr Pool kNone = 0;  // what no pool has given has an account as well
  // As a pool of the driver tells it: `reserved` is in use or kept.
  struct Usage {
    Bytes used_bytes = 0;
    Bytes used_high_bytes = 0;
    Bytes reserved_bytes = 0;
    Bytes reserved_high_bytes = 0;
  };

  // No more is reserved than the device's budget holds, unless more is in use.
  explicit PoolAccounts(Bytes budget_bytes) : budget_bytes_(budget_bytes), accounts_(1) {}

  // A new one; `most_bytes`: in use at once.
  Pool open(Bytes most_bytes);
  // It has nothing any more, and its number may come again.
  void close(Pool pool);
  [[nodiscard]] bool may_have(Pool pool, Bytes bytes) const;
  // The program has so much more, or less, in use.
  void uses(Pool pool, Bytes bytes);
  void gives_back(Pool pool, Bytes bytes);
  // Memory of this size comes to it, or leaves it.
  void comes_to(Pool pool, Bytes size) { accounts_[pool].bytes += size; }
  void leaves(Pool pool, Bytes size) { accounts_[pool].bytes -= size; }
  [[nodiscard]] Bytes bytes_of(Pool pool) const { return accounts_[pool].bytes; }

  [[nodiscard]] Usage usage(Pool pool) const;
  void reset_used_high(Pool pool);
  void reset_reserved_high(Pool pool);
  // As they were before something that is undone.
  void restore_highs(Pool pool, const Usage& before);

 private:
  struct Account {
    Bytes used_bytes = 0;
    Bytes used_high_bytes = 0;
    Bytes bytes = 0;
    Bytes reserved_high_bytes = 0;
    Bytes most_bytes = ~Bytes{0};
  };
  [[nodiscard]] Bytes reserved_by(const Account& account) const;

  Bytes budget_bytes_;
  std::vector<Account> accounts_;
  std::vector<Pool> free_numbers_;
};

}  // namespace spillway
