// The kernel of fingerprint_kernel.h, for the driver to translate. The memory is pieces of 16
// bytes, the last one as if zeros followed; each thread takes some, as many apart as there are
// threads, and adds up mix(word + (j + 1) * 0x9E3779B97F4A7C15) of their words, where j counts
// words of 8 bytes from the memory's begin and mix is the last step of splitmix64. A block adds up
// what its threads have and writes it: plain stores reach the host over any link, atomics do not.
// tests/python/test_fingerprint_kernel.py runs it without a GPU.
#include "interpose/cuda/kernels/fingerprint_kernel.h"

namespace spillway::cuda {

// Loads are marked for the caches as read once (cs): what the program has there stays.
const char kFingerprintPtx[] = R"ptx(
.version 6.0
.target sm_60
.address_size 64

.visible .entry spillway_fingerprint(
    .param .u64 param_from,
    .param .u64 param_bytes,
    .param .u64 param_to)
{
    .reg .pred %zeroth, %first, %outside, %part, %more;
    .reg .b32 %blocks, %block, %threads, %thread, %lane, %apart, %low, %high;
    .reg .b64 %from, %bytes, %to, %at, %next, %step, %address, %begin, %byte;
    .reg .b64 %x, %y, %key, %keystep, %shifted, %sum;
    .shared .align 8 .b64 block_sum;

    ld.param.u64 %from, [param_from];
    ld.param.u64 %bytes, [param_bytes];
    ld.param.u64 %to, [param_to];
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;

    mov.u64 %sum, 0;
    setp.eq.u32 %zeroth, %thread, 0;
    @%zeroth st.shared.u64 [block_sum], %sum;
    bar.sync 0;

    mul.wide.u32 %at, %block, %threads;
    cvt.u64.u32 %next, %thread;
    add.u64 %at, %at, %next;
    shl.b64 %key, %at, 1;
    add.u64 %key, %key, 1;
    mul.lo.u64 %key, %key, 0x9E3779B97F4A7C15;
    shl.b64 %at, %at, 4;
    mul.wide.u32 %step, %blocks, %threads;
    shl.b64 %keystep, %step, 1;
    mul.lo.u64 %keystep, %keystep, 0x9E3779B97F4A7C15;
    shl.b64 %step, %step, 4;
PIECE:
    setp.ge.u64 %outside, %at, %bytes;
    @%outside bra SUM;
    add.u64 %address, %from, %at;
    add.u64 %next, %at, 16;
    setp.gt.u64 %part, %next, %bytes;
    @%part bra PART;
    ld.global.cs.v2.u64 {%x, %y}, [%address];
MIX:
    add.u64 %x, %x, %key;
    shr.u64 %shifted, %x, 30;
    xor.b64 %x, %x, %shifted;
    mul.lo.u64 %x, %x, 0xBF58476D1CE4E5B9;
    shr.u64 %shifted, %x, 27;
    xor.b64 %x, %x, %shifted;
    mul.lo.u64 %x, %x, 0x94D049BB133111EB;
    shr.u64 %shifted, %x, 31;
    xor.b64 %x, %x, %shifted;
    add.u64 %sum, %sum, %x;
    add.u64 %y, %y, %key;
    add.u64 %y, %y, 0x9E3779B97F4A7C15;
    shr.u64 %shifted, %y, 30;
    xor.b64 %y, %y, %shifted;
    mul.lo.u64 %y, %y, 0xBF58476D1CE4E5B9;
    shr.u64 %shifted, %y, 27;
    xor.b64 %y, %y, %shifted;
    mul.lo.u64 %y, %y, 0x94D049BB133111EB;
    shr.u64 %shifted, %y, 31;
    xor.b64 %y, %y, %shifted;
    add.u64 %sum, %sum, %y;
    add.u64 %key, %key, %keystep;
    add.u64 %at, %at, %step;
    bra PIECE;
PART:
    mov.u64 %begin, %address;
    add.u64 %address, %from, %bytes;
    mov.u64 %x, 0;
    mov.u64 %y, 0;
BYTE:
    add.u64 %address, %address, -1;
    shl.b64 %y, %y, 8;
    shr.u64 %shifted, %x, 56;
    or.b64 %y, %y, %shifted;
    shl.b64 %x, %x, 8;
    ld.global.cs.u8 %byte, [%address];
    or.b64 %x, %x, %byte;
    setp.gt.u64 %more, %address, %begin;
    @%more bra BYTE;
    bra MIX;
SUM:
    mov.u32 %apart, 16;
LANES:
    mov.b64 {%low, %high}, %sum;
    shfl.sync.bfly.b32 %low, %low, %apart, 31, 0xFFFFFFFF;
    shfl.sync.bfly.b32 %high, %high, %apart, 31, 0xFFFFFFFF;
    mov.b64 %x, {%low, %high};
    add.u64 %sum, %sum, %x;
    shr.u32 %apart, %apart, 1;
    setp.gt.u32 %more, %apart, 0;
    @%more bra LANES;
    and.b32 %lane, %thread, 31;
    setp.eq.u32 %first, %lane, 0;
    @%first red.shared.add.u64 [block_sum], %sum;
    bar.sync 0;
    setp.gt.u32 %more, %thread, 0;
    @%more bra DONE;
    ld.shared.u64 %sum, [block_sum];
    mul.wide.u32 %at, %block, 8;
    add.u64 %to, %to, %at;
    st.global.u64 [%to], %sum;
DONE:
    ret;
}
)ptx";

}  // namespace spillway::cuda
