// See pool_accounts.h.
#include "heap/pool_accounts.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr Bytes kStepBytes = 512;  // what a pool of the driver counts in

}  // namespace

PoolAccounts::Pool PoolAccounts::open(Bytes most_bytes) {
  if (free_numbers_.empty()) {
    free_numbers_.push_back(static_cast<Pool>(accounts_.size()));
    accounts_.emplace_back();
  }
  const Pool pool = free_numbers_.back();
  free_numbers_.pop_back();
  accounts_[pool] = {.most_bytes = most_bytes};
  return pool;
}

void PoolAccounts::close(Pool pool) { free_numbers_.push_back(pool); }

bool PoolAccounts::may_have(Pool pool, Bytes bytes) const {
  const Account& account = accounts_[pool];
  return bytes <= account.most_bytes &&
         account.used_bytes <=
             account.most_bytes - std::min(round_up(bytes, kStepBytes), account.most_bytes);
}

void PoolAccounts::uses(Pool pool, Bytes bytes) {
  Account& account = accounts_[pool];
  account.used_bytes += round_up(bytes, kStepBytes);
  account.used_high_bytes = std::max(account.used_high_bytes, account.used_bytes);
  account.reserved_high_bytes = std::max(account.reserved_high_bytes, reserved_by(account));
}

void PoolAccounts::gives_back(Pool pool, Bytes bytes) {
  accounts_[pool].used_bytes -= round_up(bytes, kStepBytes);
}

Bytes PoolAccounts::reserved_by(const Account& account) const {
  return std::max(account.used_bytes, std::min(account.bytes, budget_bytes_));
}

PoolAccounts::Usage PoolAccounts::usage(Pool pool) const {
  const Account& account = accounts_[pool];
  return {.used_bytes = account.used_bytes,
          .used_high_bytes = account.used_high_bytes,
          .reserved_bytes = reserved_by(account),
          .reserved_high_bytes = account.reserved_high_bytes};
}

void PoolAccounts::reset_used_high(Pool pool) {
  accounts_[pool].used_high_bytes = accounts_[pool].used_bytes;
}

void PoolAccounts::reset_reserved_high(Pool pool) {
  accounts_[pool].reserved_high_bytes = reserved_by(accounts_[pool]);
}

void PoolAccounts::restore_highs(Pool pool, const Usage& before) {
  accounts_[pool].used_high_bytes = before.used_high_bytes;
  accounts_[pool].reserved_high_bytes = before.reserved_high_bytes;
}

}  // namespace spillway
