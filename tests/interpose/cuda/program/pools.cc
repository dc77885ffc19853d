// See pools.h.
#include "pools.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

CuMemPool make_pool(const Device& device, std::size_t most_bytes,
                    CuLocationType where = CuLocationType::kDevice) {
  CuMemPoolProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {.type = where, .id = 0};
  properties.most_bytes = most_bytes;
  CuMemPool pool = nullptr;
  device.expect(device.calls.cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  return pool;
}

Buffer take(const Device& device, CuMemPool pool, std::uint64_t bytes, CuStream stream,
            CuResult expected = CuResult::kSuccess) {
  Buffer buffer{.address = 0, .words = bytes / 8, .seed = 0};
  device.expect(device.calls.cuMemAllocFromPoolAsync(&buffer.address, bytes, pool, stream),
                "cuMemAllocFromPoolAsync", expected);
  return buffer;
}

std::uint64_t ask(const Device& device, CuMemPool pool, CuPoolAttribute attribute) {
  std::uint64_t bytes = ~std::uint64_t{0};
  device.expect(device.calls.cuMemPoolGetAttribute(pool, attribute, &bytes),
                "cuMemPoolGetAttribute");
  return bytes;
}

void set(const Device& device, CuMemPool pool, CuPoolAttribute attribute, std::uint64_t value) {
  device.expect(device.calls.cuMemPoolSetAttribute(pool, attribute, &value),
                "cuMemPoolSetAttribute");
}

// What is reserved is told as the driver's pools take it.
std::uint64_t in_pieces(std::uint64_t mib) { return (mib + 31) / 32 * 32 * kMiB; }

void require_uses(const Device& device, CuMemPool pool, std::uint64_t used_mib,
                  std::uint64_t used_high_mib, std::uint64_t reserved_mib,
                  std::uint64_t reserved_high_mib, const char* what) {
  using Attribute = CuPoolAttribute;
  device.require(ask(device, pool, Attribute::kUsedCurrent) == used_mib * kMiB &&
                     ask(device, pool, Attribute::kUsedHigh) == used_high_mib * kMiB &&
                     ask(device, pool, Attribute::kReservedCurrent) == in_pieces(reserved_mib) &&
                     ask(device, pool, Attribute::kReservedHigh) == in_pieces(reserved_high_mib),
                 what);
}

CuMemPool pool_of(const Device& device, const Buffer& buffer) {
  CuMemPool pool = nullptr;
  device.expect(
      device.calls.cuPointerGetAttribute(&pool, CuPointerAttribute::kMemPool, buffer.address),
      "cuPointerGetAttribute");
  return pool;
}

CuMemPool current_pool(const Device& device) {
  CuMemPool pool = nullptr;
  device.expect(device.calls.cuDeviceGetMemPool(&pool, 0), "cuDeviceGetMemPool");
  return pool;
}

std::size_t free_memory(const Device& device) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  device.expect(device.calls.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
  return free_bytes;
}

void limit(const Device& device, CuStream stream) {
  const CuMemPool pool = make_pool(device, 5 * kMiB);
  (void)take(device, pool, 5 * kMiB + 1, stream, CuResult::kOutOfMemory);
  const Buffer first = take(device, pool, 3 * kMiB, stream);
  const Buffer second = take(device, pool, 2 * kMiB - 512, stream);
  const Buffer last = take(device, pool, 8, stream);
  (void)take(device, pool, 8, stream, CuResult::kOutOfMemory);
  device.free(last, stream);
  device.free(second, stream);
  (void)take(device, pool, 2 * kMiB + 8, stream, CuResult::kOutOfMemory);
  const Buffer again = take(device, pool, 2 * kMiB, stream);
  device.free(again, stream);
  device.free(first, stream);
  device.expect(device.calls.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
}

void statistics(const Device& device, CuMemPool own, CuStream stream) {
  const CuMemPool pool = make_pool(device, 0);
  require_uses(device, pool, 0, 0, 0, 0, "an empty pool's");
  const Buffer one = take(device, pool, 4 * kMiB, stream);
  const Buffer two = take(device, pool, 4 * kMiB, stream);
  const Buffer others = device.allocate(2 * kMiB, stream);
  CuAddress plain = 0;
  device.expect(device.calls.cuMemAlloc_v2(&plain, 6 * kMiB), "cuMemAlloc");
  require_uses(device, pool, 8, 8, 8, 8, "a pool's");
  require_uses(device, own, 2, 2, 2, 2, "the device's own pool's");
  device.require(pool_of(device, one) == pool && pool_of(device, others) == own &&
                     pool_of(device, {.address = plain}) == nullptr,
                 "the pool of an address");
  device.free(two, stream);
  require_uses(device, pool, 4, 8, 8, 8, "a pool's after a free");
  set(device, pool, CuPoolAttribute::kUsedHigh, 0);
  require_uses(device, pool, 4, 4, 8, 8, "a pool's highest since");
  device.expect(device.calls.cuMemPoolTrimTo(own, 0), "cuMemPoolTrimTo");
  require_uses(device, pool, 4, 4, 8, 8, "a pool's after another was trimmed");
  device.expect(device.calls.cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo");
  set(device, pool, CuPoolAttribute::kReservedHigh, 0);
  require_uses(device, pool, 4, 4, 4, 4, "a pool's after a trim");
  require_uses(device, own, 2, 2, 2, 2, "the device's own pool's after all");
  set(device, pool, CuPoolAttribute::kReleaseThreshold, 3 * kMiB);
  set(device, own, CuPoolAttribute::kReleaseThreshold, 5 * kMiB);
  device.require(ask(device, pool, CuPoolAttribute::kReleaseThreshold) == 3 * kMiB &&
                     ask(device, own, CuPoolAttribute::kReleaseThreshold) == 5 * kMiB,
                 "release thresholds");
  device.expect(device.calls.cuMemFree_v2(plain), "cuMemFree");
  device.free(one, stream);
  device.free(others, stream);
  device.expect(device.calls.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
}

// Under pressure, while its memory is in use.
void destroyed_pools(const Device& device, CuMemPool own, CuStream stream) {
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const CuMemPool pool = make_pool(device, 0);
    device.expect(device.calls.cuDeviceSetMemPool(0, pool), "cuDeviceSetMemPool");
    device.require(current_pool(device) == pool, "the current pool");
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.require(pool_of(device, buffers.back()) == pool, "memory of the current pool");
    device.fill(buffers.back(), i, stream);
    device.expect(device.calls.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
    device.require(current_pool(device) == own, "the current pool when that was destroyed");
    const Buffer small = device.allocate(512, stream);
    device.require(pool_of(device, small) == own, "memory of the device's own pool");
    device.free(small, stream);
  }
  for (Buffer& buffer : buffers) {
    device.rewrite(buffer, buffer.seed + 100, stream);
  }
  for (Buffer& buffer : buffers) {
    device.check(buffer, stream);
    device.free(buffer, stream);
  }
  device.synchronize(stream);
  device.expect(device.calls.cuMemPoolDestroy(own), "cuMemPoolDestroy of the device's own",
                CuResult::kInvalidValue);
  device.require(pool_of(device, device.allocate(512, stream)) == own, "it is there still");
}

// What is the host's is none of the budget, and the driver's.
void pool_of_the_host(const Device& device, CuStream stream) {
  const CuMemPool pool = make_pool(device, 0, CuLocationType::kHost);
  const std::size_t free_bytes = free_memory(device);
  const Buffer buffer = take(device, pool, 2 * kMiB, stream);
  device.require(free_memory(device) == free_bytes, "what is free on the device");
  device.require(ask(device, pool, CuPoolAttribute::kUsedCurrent) == 0, "the driver's answer");
  device.free(buffer, stream);
  device.expect(device.calls.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
}

}  // namespace

void memory_pools(const Device& device) {
  const CuStream stream = device.stream();
  CuMemPool own = nullptr;
  device.expect(device.calls.cuDeviceGetDefaultMemPool(&own, 0), "cuDeviceGetDefaultMemPool");
  limit(device, stream);
  statistics(device, own, stream);
  destroyed_pools(device, own, stream);
  pool_of_the_host(device, stream);
}

void pools_after_a_reset(const Device& device) {
  device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  (void)device.allocate(8 * kMiB, nullptr);
  const CuMemPool of_host = make_pool(device, 0, CuLocationType::kHost);
  device.expect(device.calls.cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset");
  CuContext context = nullptr;
  device.expect(device.calls.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  device.expect(device.calls.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  CuMemPool own = nullptr;
  device.expect(device.calls.cuDeviceGetDefaultMemPool(&own, 0), "cuDeviceGetDefaultMemPool");
  device.require(own == of_host, "it has the handle of one that is gone");
  const std::size_t free_bytes = free_memory(device);
  const Buffer buffer = device.allocate(4 * kMiB, nullptr);
  device.require(free_bytes - free_memory(device) == 4 * kMiB, "what is free on the device");
  device.require(pool_of(device, buffer) == own, "the pool of an address");
  require_uses(device, own, 4, 4, 4, 4, "the device's own pool's after a reset");
}

}  // namespace spillway::cuda::test
