"""Tensors on `meta` that say they are on `cuda`.

A tensor on PyTorch's `meta` device has shapes, strides and a storage with a size, but no memory, and
it goes through autograd on the thread that calls it. So a script's "cuda" becomes "meta" wherever a
device is named, and a meta tensor answers "cuda:0" where it is asked for its device. Its type stays
exactly torch.Tensor or Parameter, by which optimizers choose their foreach form.

Not taken, and why: FakeTensorMode with a cuda device, because autograd of a build without CUDA ends
the process (no device guard); fake CPU tensors, because operators are then chosen as on a CPU (flash
attention, dropout's mask) and optimizers see another type.
"""

import functools

import torch
from torch.utils import _device

META = torch.device("meta")
CUDA = torch.device("cuda:0")

_BASE = torch._C.TensorBase
_device_of = _BASE.device.__get__

# Names that make tensors, and take `device=`.
_FACTORIES = ("empty", "empty_strided", "empty_permuted", "zeros", "ones", "full", "rand", "randn", "randint",
              "randperm", "arange", "range", "linspace", "logspace", "eye", "tensor", "as_tensor",
              "asarray", "scalar_tensor", "empty_like", "zeros_like", "ones_like", "full_like",
              "rand_like", "randn_like", "randint_like", "tril_indices", "triu_indices", "hann_window",
              "hamming_window", "bartlett_window", "blackman_window", "kaiser_window", "fft.fftfreq",
              "fft.rfftfreq", "sparse_coo_tensor", "sparse_csr_tensor", "normal")
_METHODS = ("new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "new_tensor", "to")


def on_device(tensor):
    # Under a function mode, as torch.device("cuda") is, PyTorch asks what the tensor says instead.
    return _device_of(tensor).type in ("meta", "cuda")


def real(device):
    """What PyTorch is given for a device that a script names."""
    if device is None or isinstance(device, torch.device) and device.type != "cuda":
        return device
    if isinstance(device, bool):
        return device
    if isinstance(device, int):
        return META
    if isinstance(device, str) and not device.startswith("cuda"):
        return device
    if isinstance(device, (str, torch.device)):
        index = torch.device(device).index
        if index:
            raise RuntimeError(f"CUDA error: invalid device ordinal (cuda:{index} of 1 device)")
        return META
    return device


def _factory(make):
    @functools.wraps(make)
    def made(*args, **kwargs):
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = real(device)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return make(*args, **kwargs)

    return made


def _method(method):
    @functools.wraps(method)
    def called(self, *args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = real(kwargs["device"])
        if args:
            args = tuple(real(value) if isinstance(value, (str, torch.device)) else value
                         for value in args)
        return method(self, *args, **kwargs)

    return called


def _wrap(path, wrapper):
    owner = torch
    *folders, name = path.split(".")
    for folder in folders:
        owner = getattr(owner, folder)
    if hasattr(owner, name):
        setattr(owner, name, wrapper(getattr(owner, name)))


def _to(method):
    called = _method(method)

    @functools.wraps(method)
    def to(self, *args, **kwargs):
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (META, *args[1:])
        return called(self, *args, **kwargs)

    return to


def _cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    real(device)
    return self.to(META, non_blocking=non_blocking, memory_format=memory_format)


def _contexts():
    """`with torch.device("cuda")` and torch.set_default_device."""
    context = _device.DeviceContext
    init = context.__init__

    def made(self, device):
        init(self, real(device))

    context.__init__ = made
    default = torch.get_default_device

    def get_default_device():
        device = default()
        return CUDA if device.type == "meta" else device

    torch.get_default_device = get_default_device


class _Generator(torch.Generator):
    """A generator of the host's: nothing on the device is ever drawn."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, device="cpu")
        made.presented = CUDA if real(device) == META else torch.device("cpu")
        return made

    @property
    def device(self):
        return self.presented


def _grouped(group):
    """What PyTorch groups by device says meta; callers compare with names of devices."""

    def grouped(*args, **kwargs):
        return {(CUDA if device.type == "meta" else device, dtype): lists
                for (device, dtype), lists in group(*args, **kwargs).items()}

    return grouped


def _parse_to(parse):
    def parsed(*args, **kwargs):
        device, dtype, non_blocking, layout = parse(
            *(real(value) if isinstance(value, (str, torch.device)) else value for value in args),
            **{name: real(value) if name == "device" else value for name, value in kwargs.items()})
        return device, dtype, non_blocking, layout

    return parsed


def start():
    _device._device_constructors()  # remembers PyTorch's functions, which a context is asked for
    for name in _FACTORIES:
        _wrap(name, _factory)
    for name in _METHODS:
        setattr(torch.Tensor, name,
                (_to if name == "to" else _method)(getattr(torch.Tensor, name)))
    torch.Tensor.cuda = _cuda
    torch.Tensor.device = property(lambda self: CUDA if on_device(self) else _device_of(self))
    torch.Tensor.is_cuda = property(on_device)
    torch.Tensor.is_meta = property(lambda self: False)
    torch.Tensor.get_device = lambda self: 0 if on_device(self) else -1
    torch.Tensor.pin_memory = lambda self, device=None: self
    torch.Tensor.is_pinned = lambda self, device=None: False
    torch.Tensor.record_stream = lambda self, stream: None
    module = torch.nn.Module
    module.cuda = lambda self, device=None: self._apply(lambda tensor: tensor.cuda(device))
    torch._C._nn._parse_to = _parse_to(torch._C._nn._parse_to)
    # module.to() on the device keeps its parameters, tied ones too: their contents are exchanged.
    torch.__future__.set_swap_module_params_on_conversion(True)
    torch.Generator = _Generator
    torch._C._group_tensors_by_device_and_dtype = _grouped(
        torch._C._group_tensors_by_device_and_dtype)
    _contexts()
