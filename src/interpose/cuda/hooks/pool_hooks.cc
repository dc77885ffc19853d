// Memory pools as programs make them, ask about them and give them up; what is allocated from them
// is memory_hooks.cc's. Layer: interpose, cuda.
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/memory_pools.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {
namespace {

// The pool's account, and the heap's session, where it is the space's.
struct Account {
  const Session* session = nullptr;
  DeviceHeap::Pool pool = DeviceHeap::kNoPool;
};
std::optional<Account> account_of(const ProgramCall& here, CuMemPool handle) {
  const Session* const session = here.seen_by();
  const auto pool = session != nullptr ? pool_of(*session, handle) : std::nullopt;
  return pool ? std::optional(Account{.session = session, .pool = *pool}) : std::nullopt;
}

// The driver's pools take device memory in pieces, and programs watch what is reserved grow by
// them.
std::uint64_t in_pieces(Bytes bytes) {
  constexpr Bytes kPieceBytes = 32 * kMiB;
  return round_up(bytes, kPieceBytes);
}

template <typename Call>
CuResult change_current(const Call& call) {
  ProgramCall here(CallKind::kOther);
  const CuResult result = here.driver(call);
  current_pool_changes();
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuMemPoolCreate(CuMemPool* pool, const CuMemPoolProperties* properties) {
  cuda::ProgramCall here(CallKind::kOther);
  const CuResult result =
      here.driver([&] { return cuda::real().cuMemPoolCreate(pool, properties); });
  if (!here.inner() && result == CuResult::kSuccess) {
    cuda::note_pool(*pool, {.type = properties->type,
                            .location = properties->location,
                            .most_bytes = properties->most_bytes});
  }
  return result;
}

// What the program has of it stays the program's.
CuResult cuMemPoolDestroy(CuMemPool pool) {
  cuda::ProgramCall here(CallKind::kOther);
  const auto known = here.inner() ? std::nullopt : cuda::take_pool(pool);
  const CuResult result = here.driver([&] { return cuda::real().cuMemPoolDestroy(pool); });
  if (!known) {
    return result;
  }
  if (result != CuResult::kSuccess) {
    cuda::note_pool(pool, *known);
    return result;
  }
  cuda::current_pool_changes();
  if (const cuda::Session* const session = here.seen_by(); session != nullptr && known->account) {
    session->heap->close_pool(*known->account);
  }
  return result;
}

CuResult cuDeviceSetMemPool(CuDevice device, CuMemPool pool) {
  return cuda::change_current([&] { return cuda::real().cuDeviceSetMemPool(device, pool); });
}

CuResult cuMemSetMemPool(CuLocation* location, CuAllocationType type, CuMemPool pool) {
  return cuda::change_current([&] { return cuda::real().cuMemSetMemPool(location, type, pool); });
}

CuResult cuMemPoolGetAttribute(CuMemPool pool, CuPoolAttribute attribute, void* value) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const CuResult result =
      here.driver([&] { return cuda::real().cuMemPoolGetAttribute(pool, attribute, value); });
  const auto account = result == CuResult::kSuccess ? cuda::account_of(here, pool) : std::nullopt;
  if (!account) {
    return result;
  }
  const spillway::DeviceHeap::Usage usage = account->session->heap->usage(account->pool);
  auto* const bytes = static_cast<std::uint64_t*>(value);
  switch (attribute) {
    case CuPoolAttribute::kReservedCurrent:
      *bytes = in_pieces(usage.reserved_bytes);
      break;
    case CuPoolAttribute::kReservedHigh:
      *bytes = in_pieces(usage.reserved_high_bytes);
      break;
    case CuPoolAttribute::kUsedCurrent:
      *bytes = usage.used_bytes;
      break;
    case CuPoolAttribute::kUsedHigh:
      *bytes = usage.used_high_bytes;
      break;
    default:  // the driver's own answer
      break;
  }
  return result;
}

CuResult cuMemPoolSetAttribute(CuMemPool pool, CuPoolAttribute attribute, void* value) {
  cuda::ProgramCall here(CallKind::kOther);
  const CuResult result =
      here.driver([&] { return cuda::real().cuMemPoolSetAttribute(pool, attribute, value); });
  const auto account = result == CuResult::kSuccess ? cuda::account_of(here, pool) : std::nullopt;
  if (account && attribute == CuPoolAttribute::kReservedHigh) {
    account->session->heap->reset_reserved_high(account->pool);
  } else if (account && attribute == CuPoolAttribute::kUsedHigh) {
    account->session->heap->reset_used_high(account->pool);
  }
  return result;
}

CuResult cuMemPoolTrimTo(CuMemPool pool, std::size_t bytes) {
  cuda::ProgramCall here(CallKind::kOther);
  if (const auto account = cuda::account_of(here, pool)) {
    account->session->heap->trim_to(account->pool, bytes);
  }
  return here.driver([&] { return cuda::real().cuMemPoolTrimTo(pool, bytes); });
}

}  // extern "C"
