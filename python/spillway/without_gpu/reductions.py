"""How PyTorch's reduce_kernel divides its work on a GPU (aten/src/ATen/native/cuda/Reduce.cuh).

What counts here is whether the blocks of one output meet in global memory: then a buffer for what they
have added up so far is allocated, often of tens of megabytes, and a few semaphores, which are cleared.
"""

_WARP = 32
_MIN_VALUES, _MAX_VALUES = 16, 256  # for one thread
_THREADS_OF_PROCESSOR = 2048


def _power(number):
    return 1 << (max(number, 1).bit_length() - 1)


def _ceil(a, b):
    return -(-a // b)


def buffers(inputs, outputs, fastest, processors, accumulator_bytes=4, aligned=True):
    """(bytes of the buffer, bytes of the semaphores) of reducing `inputs` elements to `outputs`;
    `fastest`: over the dimension that lies closest in memory. 0, 0 if no block waits for another."""
    per_output = inputs // max(outputs, 1)
    vector = 1
    if fastest:
        dim0, dim1 = per_output, outputs
        if outputs == 1 and dim0 >= 128:
            dim0 //= 4
    else:
        dim0, dim1 = outputs, per_output
        while aligned and vector < 4 and outputs % (vector * 2) == 0:
            vector *= 2
        dim0 //= vector
    threads = 512 // vector
    width = min(_power(dim0) if dim0 < threads else threads, _WARP)
    height = min(_power(dim1) if dim1 < threads else threads, threads // width)
    width = min(_power(dim0) if dim0 < threads else threads, threads // height)
    used = width * height
    step_input, step_output = (width, 1) if fastest else (1, width)
    block_x = fastest
    values = _ceil(per_output, step_input)
    across = values >= min(height * 16, 256)
    if across:
        step_input *= height
    else:
        step_output *= height
    values = _ceil(per_output, step_input)
    grid = _ceil(outputs // vector, step_output)
    target = processors * (_THREADS_OF_PROCESSOR // used)
    if not across or values < _MAX_VALUES or grid > target:
        return 0, 0
    blocks = max(min(_ceil(target, grid), _ceil(values, _MIN_VALUES)), _ceil(values, _MAX_VALUES))
    if blocks <= 1:
        return 0, 0
    size = accumulator_bytes * outputs * blocks
    if not block_x:
        size *= width * vector
    return size, 4 * grid
