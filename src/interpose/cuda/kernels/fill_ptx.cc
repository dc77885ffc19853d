// The kernel of fill_kernel.h, for the driver to translate. Each thread takes pieces of 16 aligned
// bytes, as many apart as there are threads: whole ones in one store, what lies in part outside
// byte by byte. tests/python/test_fill_kernel.py runs it without a GPU.
#include "interpose/cuda/kernels/fill_kernel.h"

namespace spillway::cuda {

const char kFillPtx[] = R"ptx(
.version 6.0
.target sm_60
.address_size 64

.visible .entry spillway_fill(
    .param .u64 param_to,
    .param .u64 param_bytes,
    .param .u32 param_pattern)
{
    .reg .pred %outside, %before, %behind;
    .reg .b32 %pattern, %byte, %shift, %blocks, %block, %threads, %thread;
    .reg .b64 %to, %end, %at, %next, %step, %index, %one, %last, %low;

    ld.param.u64 %to, [param_to];
    ld.param.u64 %end, [param_bytes];
    ld.param.u32 %pattern, [param_pattern];
    add.u64 %end, %to, %end;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %index, %block, %threads;
    cvt.u64.u32 %step, %thread;
    add.u64 %index, %index, %step;
    shl.b64 %index, %index, 4;
    mul.wide.u32 %step, %blocks, %threads;
    shl.b64 %step, %step, 4;
    and.b64 %at, %to, -16;
    add.u64 %at, %at, %index;
PIECE:
    setp.ge.u64 %outside, %at, %end;
    @%outside bra DONE;
    add.u64 %next, %at, 16;
    setp.lt.u64 %before, %at, %to;
    @%before bra EDGE;
    setp.gt.u64 %behind, %next, %end;
    @%behind bra EDGE;
    st.global.v4.u32 [%at], {%pattern, %pattern, %pattern, %pattern};
    bra NEXT;
EDGE:
    max.u64 %one, %at, %to;
    min.u64 %last, %next, %end;
BYTE:
    and.b64 %low, %one, 3;
    shl.b64 %low, %low, 3;
    cvt.u32.u64 %shift, %low;
    shr.u32 %byte, %pattern, %shift;
    st.global.u8 [%one], %byte;
    add.u64 %one, %one, 1;
    setp.lt.u64 %before, %one, %last;
    @%before bra BYTE;
NEXT:
    add.u64 %at, %at, %step;
    bra PIECE;
DONE:
    ret;
}
)ptx";

}  // namespace spillway::cuda
