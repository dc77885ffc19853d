"""What is left to PyTorch's own step, and why: one phrase, or None for what Spillway updates."""

import inspect
import sys

import torch

from . import placement, rules

SMALL = "so small that it stays on the device"
MISREAD = ("its tensors differ in strides or have gaps, which fused=True ignores on the CPU: "
           "the result may be wrong")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def why_not_kind(optimizer):
    """Of the optimizer as a whole."""
    kind = type(optimizer)
    if kind not in rules.RULES:
        return f"{kind.__name__} is not Adam, AdamW, SGD or Adagrad of torch.optim"
    if "_init_group" in vars(optimizer):
        return "its _init_group is another library's"
    fills = ["self", "group", *rules.RULES[kind].fills]
    if not hasattr(kind, "_init_group") or list(inspect.signature(kind._init_group).parameters) != fills:
        return f"{kind.__name__} of PyTorch {torch.__version__} fills other lists"
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in ("AVX2", "AVX512"):
        return f"PyTorch computes for {capability}, whose bits are others"
    return None


def why_not_group(kind, group, way):
    """Of all tensors of a group, whatever they are."""
    for name in ("differentiable", "capturable"):
        if group.get(name):
            return f"{name}=True"
    if group.get("fused") and group.get("foreach"):
        return "fused and foreach are both set"
    if way is None:
        return "tensors in a group that PyTorch computes in several ways; set foreach or fused"
    if (way == "foreach" and group.get("nesterov") and group["momentum"] != 0
            and group["weight_decay"] == 0 and not group["maximize"]):
        return "nesterov with foreach=True, which changes gradients"
    for name, value in {**rules.RULES[kind].step(group), "lr": group["lr"]}.items():
        if name == "lr" and isinstance(value, torch.Tensor):
            if not group.get("fused") and kind is not torch.optim.SGD:
                return "lr is a tensor, which only fused=True computes with as with a number"
            if value.numel() != 1 or value.requires_grad or value.device.type != "cpu":
                return "lr is a tensor that is not a single number on the CPU"
        # Other kinds of numbers compute in other precision, numpy.float32 for instance.
        elif not isinstance(value, (float, int)):
            return f"{name} is a {type(value).__name__}, not a number of Python's"
    return None


def why_not_gradients(kind, group, place, way, gradients, states):
    """Of all tensors of a group in one step: where PyTorch would refuse them together."""
    if any(gradient.is_sparse for gradient in gradients) and (
            group.get("fused") or group["weight_decay"] != 0):
        return "a gradient is sparse, with fused=True or weight decay"
    on_gpu = place is not None and not place.at_once
    if way == "foreach" and on_gpu and any(gradient.is_sparse for gradient in gradients):
        return "a gradient is sparse, beside which foreach=True computes others in another way"
    if group.get("fused") and kind is torch.optim.SGD:
        missing = sum(state is None for state in states)
        if 0 < missing < len(states):
            return "some tensors have no momentum yet, which PyTorch refuses with fused=True"
    return None


def local(tensor):
    """The memory of this process behind a tensor: a DTensor's part."""
    distributed = sys.modules.get("torch.distributed.tensor")
    if distributed is not None and type(tensor) is distributed.DTensor:
        return tensor._local_tensor
    return tensor


def distribution(tensor):
    return getattr(tensor, "device_mesh", None), getattr(tensor, "placements", None)


def why_not_type(place, way, dtype):
    """Of all tensors of a type in a group."""
    if place is placement.HOST and way == "foreach" and dtype == torch.bfloat16:
        return "bfloat16 with foreach=True, whose bits are not known"
    return None


def all_plain(parameter, others):
    """Whether nothing below has anything against a parameter, its gradient and states: the usual
    case, in few calls."""
    dtype, shape, device = parameter.dtype, parameter.shape, parameter.device
    if dtype not in rules.TYPES or parameter.numel() == 0:
        return False
    for tensor in (parameter, *others):
        if not (type(tensor) in _PLAIN and tensor.device == device and tensor.layout is torch.strided
                and tensor.dtype is dtype and tensor.shape == shape and tensor.is_contiguous()
                and not tensor.is_neg() and not tensor.is_conj() and tensor.data_ptr() != 0):
            return False
    return True


def why_not_parameter(parameter, place):
    """Of a parameter, before there is a gradient."""
    tensor = local(parameter)
    if type(tensor) not in _PLAIN:
        return f"a {type(tensor).__name__}"
    if place is None:
        return f"on {tensor.device.type}"
    if tensor.dtype not in rules.TYPES:
        return str(tensor.dtype).replace("torch.", "")
    if tensor.nbytes < place.least_bytes:
        return SMALL
    if parameter is not tensor and any(not (place.is_shard() or place.is_replicate())
                                       for place in parameter.placements):
        return "a DTensor of partial sums"
    return _why_not_memory(tensor)


def why_not_beside(parameter, other, what):
    """Of a gradient or a state of that parameter."""
    if other.is_sparse:
        return f"its {what} is sparse"
    tensor, wanted = local(other), local(parameter)
    if type(tensor) not in _PLAIN or distribution(other) != distribution(parameter):
        return f"its {what} is a {type(other).__name__}"
    if tensor.dtype != wanted.dtype or tensor.shape != wanted.shape or tensor.device != wanted.device:
        return f"its {what} has another shape, type or device"
    reason = _why_not_memory(tensor)
    return reason and f"its {what} is {reason}"


def misread(parameter, others):
    """Whether PyTorch's fused kernels on the CPU take elements for each other that are not: of each
    tensor they use the memory behind its first element, as many elements as there are, without a look
    at its strides."""
    tensors = [local(tensor) for tensor in (parameter, *others)]
    if not all(tensor.is_cpu and tensor.layout is torch.strided for tensor in tensors):
        return False
    orders = {_memory_order(tensor) for tensor in tensors}
    return None in orders or len(orders) > 1


def why_not_step(step, parameter, place, way):
    """Of the tensor that counts steps."""
    plain = type(step) in _PLAIN and step.numel() == 1 and step.dtype in (torch.float32, torch.float64)
    if not (plain and place.is_at_host(step)) and place.at_once:
        return "its step is not a number on the CPU"
    if place.at_once:
        return None
    if not plain or step.device != parameter.device and not place.is_at_host(step):
        return "its step is not a number here"
    if way == "fused" and (place.is_at_host(step) or step.dtype != torch.float32):
        return "its step is not a float32 on the device"
    if not place.is_at_host(step) and step.is_inference():
        return "its step was made in inference mode"
    return None


def _memory_order(tensor):
    """Strides that decide which element comes after which in memory; None where elements lie apart, or
    several in one place."""
    strides = tuple(stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride())
                               if size > 1):
        if stride != expected:
            return None
        expected *= size
    return strides


def _why_not_memory(tensor):
    if tensor.layout != torch.strided or not tensor.is_contiguous():
        return "not contiguous"
    if tensor.is_neg() or tensor.is_conj():
        return "a view that negates"
    if tensor.numel() == 0 or tensor.data_ptr() == 0:
        return "empty"
    return None
