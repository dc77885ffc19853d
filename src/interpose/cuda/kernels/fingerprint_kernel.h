// What some device memory holds, as a number: a kernel of ours reads it and adds up its words, each
// mixed with its place. If the number is the same before and after a kernel of the program, that
// has left there what was there. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/cuda/driver/own_launches.h"

namespace spillway::cuda {

// Whether the kernel is there (own_kernels.h), for the calling thread's context.
[[nodiscard]] bool has_fingerprint_kernel();
// Put on a stream of that context. `from` is a multiple of 16 and `bytes` more than 0; `to` is
// pinned memory of kFingerprintWords words that the device reaches at the same address: each of the
// launch's blocks writes one.
[[nodiscard]] CuResult launch_fingerprint(CuAddress from, std::size_t bytes, std::uint64_t* to,
                                          CuStream stream);

// The number: the sum of what a launch that has ended has written. Bytes that differ within one
// aligned word of 8 give another for certain; others by chance, 1 in 2^64, give the same.
[[nodiscard]] std::uint64_t fingerprint_of(const std::uint64_t* words);
// The same number for memory of the host.
[[nodiscard]] std::uint64_t fingerprint_on_host(const void* from, std::size_t bytes);

// The kernel's source.
extern const char kFingerprintPtx[];

}  // namespace spillway::cuda
