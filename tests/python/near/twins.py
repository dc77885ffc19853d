"""An optimizer of PyTorch's beside the same one replaced: same parameters, gradients and calls."""

import copy

import pytest

torch = pytest.importorskip("torch")

from spillway.near import native  # noqa: E402

try:
    native.library()
except OSError as missing:
    pytest.skip(str(missing), allow_module_level=True)

import spillway  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """For PyTorch, where no test asks for more: idle ones spin, and tests run beside each other. For
    tests that import it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Around vectors; in one step, so that tensors of one call differ.
SHAPES = ((1,), (8,), (3, 11), (1000,), (64, 65), ())


def bits(tensor):
    if tensor is None or not isinstance(tensor, torch.Tensor):
        return tensor
    tensor = tensor.detach().resolve_neg()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def assert_same(one, other, what=""):
    """The same bits, types and shapes, in dictionaries and lists as well."""
    assert type(one) is type(other), f"{what}: {type(one)} and {type(other)}"
    if isinstance(one, dict):
        assert list(one) == list(other), what
        for key in one:
            assert_same(one[key], other[key], f"{what}.{key}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), what
        for index, pair in enumerate(zip(one, other)):
            assert_same(*pair, f"{what}[{index}]")
    elif isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride()), what
        assert torch.equal(bits(one), bits(other)), f"{what} differs"
    else:
        assert one == other, what


class Twins:
    def __init__(self, kind, groups, optimize=True, **options):
        """groups: lists of tensors, or dictionaries with "params"."""
        self.seed = 0
        self.plain, self.near = (kind(self._copied(groups), **options) for _ in range(2))
        self.both = (self.plain, self.near)
        if optimize:
            spillway.near.optimize(self.near, threads=1)

    @staticmethod
    def _copied(groups):
        groups = [group if isinstance(group, dict) else {"params": group} for group in groups]
        return [{**copy.deepcopy({key: value for key, value in group.items() if key != "params"}),
                 "params": [torch.nn.Parameter(tensor.detach().clone()) for tensor in group["params"]]}
                for group in groups]

    def parameters(self):
        """Pairs of them."""
        return [pair for groups in zip(self.plain.param_groups, self.near.param_groups)
                for pair in zip(groups[0]["params"], groups[1]["params"])]

    def gradients(self, make=None):
        self.seed += 1
        generator = torch.Generator().manual_seed(self.seed)
        for index, (one, other) in enumerate(self.parameters()):
            if make is None:
                gradient = torch.randn(one.shape, generator=generator).to(one.dtype)
                gradient *= 10.0 ** (self.seed % 7 - 5)
            else:
                gradient = make(index, one)
            one.grad = gradient
            other.grad = None if gradient is None else gradient.clone()

    def step(self, make=None, closure=None):
        self.gradients(make)
        for optimizer in self.both:
            optimizer.step()
        self.compare()

    def each(self, act):
        for optimizer in self.both:
            act(optimizer)

    def compare(self):
        for index, (one, other) in enumerate(self.parameters()):
            assert_same(one.detach(), other.detach(), f"parameter {index}")
            if one.grad is not None:
                assert torch.equal(bits(one.grad), bits(other.grad)), f"gradient {index} differs"
        assert_same(self.plain.state_dict(), self.near.state_dict(), "state_dict")

    def left(self):
        """Why tensors are left to PyTorch, and how many of them."""
        return {why: count for group in self.near.spillway.groups for why, count in group.left.items()}

    def replaced(self):
        return sum(group.tensors for group in self.near.spillway.groups)


def tensors(shapes=SHAPES, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
