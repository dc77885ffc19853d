"""libspillway_near.so (src/near/near.h): an optimizer's step on the processor, with PyTorch's bits.

    update = native.Update(native.Options(native.ADAM, native.FUSED_CPU, decoupled_decay=True))
    update.run([native.in_place(step, p.numel(), p.data_ptr(), ...)], native.Pool())

Raises OSError where the library is missing, `Refused` with one line where the bits cannot be had. The
interpreter is not held while a step runs; tensors must live, and lie contiguously, until it returns.
"""

import ctypes
import functools
import os
from pathlib import Path

ABI = 2
ADAM, SGD, ADAGRAD = range(3)
LOOP_CPU, FUSED_CPU, LOOP_CUDA, FOREACH_CUDA, FUSED_CUDA = range(5)
FLOAT32, BFLOAT16 = range(2)
# Ranges of `run_range` begin at multiples of it.
GRAIN_ELEMENTS = 64

# From this folder: a wheel, a source tree, an installation by cmake.
_BESIDE = ("../lib", "../../../build", "../../../lib")
# MKL's vmsSqrt as ATen calls it: high accuracy, subnormal numbers kept, no errors told.
_MKL_MODE = 0x2 | 0x140000 | 0x100


class Refused(Exception):
    """Why this update's bits cannot be had here: one line."""


class Options(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in (
        "rule", "variant", "parameter_type", "gradient_type",
        "decoupled_decay", "amsgrad", "maximize", "nesterov", "torch_threads", "compute_capability")]
    _fields_ += [("square_roots", ctypes.c_void_p), ("square_roots_mode", ctypes.c_int64),
                 ("coupled_decay", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                 ("square_roots_threads", ctypes.c_void_p)]

    def __init__(self, *fields, **named):
        super().__init__(*fields, **named)
        if self.square_roots and not self.square_roots_threads:
            self.square_roots_threads = _address(_torch_cpu(), "MKL_Set_Num_Threads_Local")


class Step(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in (
        "step", "learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "momentum",
        "dampening", "learning_rate_decay", "gradient_scale")]

    def __init__(self, **numbers):
        super().__init__(**{"gradient_scale": 1.0, **numbers})


class Tensor(ctypes.Structure):
    """Addresses and elements; None for what the rule does not have."""

    _fields_ = [("step", Step), ("elements", ctypes.c_uint64)]
    _fields_ += [(name, ctypes.c_void_p) for name in (
        "parameter", "gradient", "first", "second", "max_second",
        "parameter_out", "first_out", "second_out", "max_second_out", "gradient_out")]


def in_place(step, elements, parameter, gradient, first=None, second=None, max_second=None,
             gradient_out=None):
    """A tensor whose results lie where its inputs do."""
    return Tensor(step, elements, parameter, gradient, first, second, max_second,
                  parameter, first, second, max_second, gradient_out)


def library_path():
    folder = Path(__file__).resolve().parent
    for beside in _BESIDE:
        path = (folder / beside / "libspillway_near.so").resolve()
        if path.is_file():
            return path
    raise OSError("spillway.near: there is no libspillway_near.so beside this package; "
                  "install the wheel, or run `make build`")


@functools.lru_cache(maxsize=None)
def library():
    loaded = ctypes.CDLL(str(library_path()))
    if loaded.spillway_near_abi() != ABI:
        raise OSError(f"spillway.near: {library_path()} is of another version than this package")
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
        ("make", pointer, [ctypes.POINTER(Options), text, size]),
        ("free", None, [pointer]),
        ("bytes_per_element", ctypes.c_uint64, [pointer]),
        ("pool_make", pointer, [ctypes.c_uint32, text, size]),
        ("pool_free", None, [pointer]),
        ("pool_threads", ctypes.c_uint32, [pointer]),
        ("run", None, [pointer, pointer, ctypes.POINTER(Tensor), size]),
        ("run_range", None, [pointer, ctypes.POINTER(Tensor), ctypes.c_uint64, ctypes.c_uint64]),
        ("zero", None, [pointer, pointer, ctypes.c_uint64]),
    ):
        function = getattr(loaded, f"spillway_near_{name}")
        function.restype, function.argtypes = result, arguments
    return with_gpu_functions(loaded)


def with_gpu_functions(loaded):
    """The library, where it has them: one without takes nothing of a GPU."""
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("update_on_gpu", None, [pointer, pointer, ctypes.POINTER(Tensor), size, pointer,
                                 ctypes.POINTER(ctypes.c_uint8), pointer, pointer]),
        ("takes_on_gpu", ctypes.c_int, []),
        ("send_gradient", None, [pointer, size]),
        ("wait", None, []),
    ):
        function = getattr(loaded, f"spillway_near_{name}", None)
        if function is not None:
            function.restype, function.argtypes = result, arguments
    return loaded


@functools.lru_cache(maxsize=None)
def knows_gpus():
    """Whether the library has functions for tensors on a GPU."""
    return hasattr(library(), "spillway_near_update_on_gpu")


def takes_on_gpu():
    """Whether it may take any now: not where everything fits on the device."""
    return knows_gpus() and library().spillway_near_takes_on_gpu() != 0


def wait():
    """Until all updates that were taken on a GPU have ended."""
    if hasattr(library(), "spillway_near_wait"):
        library().spillway_near_wait()


def sender():
    """spillway_near_send_gradient, a function of an address and bytes; None where there is none."""
    return getattr(library(), "spillway_near_send_gradient", None)


def _made(function, *arguments):
    why = ctypes.create_string_buffer(512)
    handle = function(*arguments, why, len(why))
    if not handle:
        raise Refused(why.value.decode())
    return handle


class Pool:
    """Threads, the caller's among them; by default as many as the process has processors."""

    def __init__(self, threads=0):
        self._library = library()
        self._handle = _made(self._library.spillway_near_pool_make, threads)
        self.threads = self._library.spillway_near_pool_threads(self._handle)
        self._process = os.getpid()

    def zero(self, address, size):
        """Writes zeros into memory that is new, each part by the thread that will update it, in large pages
        where there are any."""
        self._library.spillway_near_zero(self._handle, address, size)

    def __del__(self):
        # The child of a fork has none of the threads, and would wait for them.
        if getattr(self, "_handle", None) and os.getpid() == self._process:
            self._library.spillway_near_pool_free(self._handle)


class Update:
    """What `options` ask for. Any number of threads may use one at the same time."""

    def __init__(self, options):
        self._library = library()
        self._handle = _made(self._library.spillway_near_make, ctypes.byref(options))
        self.options = options
        self.bytes_per_element = self._library.spillway_near_bytes_per_element(self._handle)

    def run(self, tensors, pool=None):
        """Updates them all and returns; without a pool in this thread alone."""
        if not isinstance(tensors, ctypes.Array):
            tensors = (Tensor * len(tensors))(*tensors)
        self._library.spillway_near_run(pool and pool._handle, self._handle, tensors, len(tensors))

    def run_on_gpu(self, tensors, pool, stream, gradient_scale=None, found_inf=None):
        """Has those updated at the host that had better be, and returns at once: a list with 1 for each
        that was taken, 0 for each that is the caller's. The last three: a stream's handle, and addresses
        on the device of what GradScaler says, which nobody reads before the update."""
        count = len(tensors)
        taken = (ctypes.c_uint8 * count)()
        self._library.spillway_near_update_on_gpu(
            pool and pool._handle, self._handle, (Tensor * count)(*tensors), count, stream, taken,
            gradient_scale, found_inf)
        return list(taken)

    def run_range(self, tensor, begin, end):
        """Elements of one tensor, in this thread."""
        self._library.spillway_near_run_range(self._handle, ctypes.byref(tensor), begin, end)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.spillway_near_free(self._handle)


def torch_square_roots():
    """(address, mode) for `Options`, of the function that torch.sqrt calls for fp32; (None, 0) where
    its roots are IEEE's. Raises Refused where they are neither."""
    roots = _square_roots()
    if roots is None:
        raise Refused("near: torch.sqrt is neither IEEE's nor MKL's here, so a loop's bits cannot be had; "
                      "fused=True computes without it")
    return roots


def _torch_cpu():
    """PyTorch's library of operators, MKL with them; None where it has another name."""
    import torch

    name = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return ctypes.CDLL(str(name)) if name.is_file() else None


def _address(loaded, name):
    function = getattr(loaded, name, None)
    return function and ctypes.cast(function, ctypes.c_void_p).value


@functools.lru_cache(maxsize=None)
def _square_roots():
    import torch

    sample = torch.randint(0, 0x7F800000, (1 << 20,), dtype=torch.int32, device="cpu",
                           generator=torch.Generator("cpu").manual_seed(1)).view(torch.float32)
    wanted = sample.sqrt()
    mkl = getattr(_torch_cpu(), "vmsSqrt", None)
    if mkl is not None:
        mkl.restype = None
        mkl.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        roots = torch.empty_like(sample)
        mkl(sample.numel(), sample.data_ptr(), roots.data_ptr(), _MKL_MODE)
        if torch.equal(roots, wanted):
            return _address(_torch_cpu(), "vmsSqrt"), _MKL_MODE
    if torch.equal(sample.double().sqrt().float(), wanted):
        return None, 0
    return None
