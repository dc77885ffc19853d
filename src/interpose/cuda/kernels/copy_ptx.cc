// The kernel of copy_kernel.h, for the driver to translate. Each thread takes bytes as many apart
// as there are threads. tests/python/test_copy_kernel.py runs it without a GPU.
#include "interpose/cuda/kernels/copy_kernel.h"

namespace spillway::cuda {

const char kCopyPtx[] = R"ptx(
.version 6.0
.target sm_60
.address_size 64

.visible .entry spillway_copy(
    .param .u64 param_from,
    .param .u64 param_to,
    .param .u64 param_bytes)
{
    .reg .pred %outside;
    .reg .b32 %byte, %blocks, %block, %threads, %thread;
    .reg .b64 %from, %to, %bytes, %at, %step, %source, %target;

    ld.param.u64 %from, [param_from];
    ld.param.u64 %to, [param_to];
    ld.param.u64 %bytes, [param_bytes];
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %at, %block, %threads;
    cvt.u64.u32 %step, %thread;
    add.u64 %at, %at, %step;
    mul.wide.u32 %step, %blocks, %threads;
BYTE:
    setp.ge.u64 %outside, %at, %bytes;
    @%outside bra DONE;
    add.u64 %source, %from, %at;
    add.u64 %target, %to, %at;
    ld.global.u8 %byte, [%source];
    st.global.u8 [%target], %byte;
    add.u64 %at, %at, %step;
    bra BYTE;
DONE:
    ret;
}
)ptx";

}  // namespace spillway::cuda
