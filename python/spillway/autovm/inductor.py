"""AutoVM inside of inductor: where the operators are inserted, and what keeps them there.

Decided is between AOTAutograd's forward and backward graph, right after they have been parted (`Partitioner`), so
that nothing runs again because of an operator. Inserted is behind inductor's own passes over each graph
(`Insert`), so that no pattern that inductor looks for is hidden. From there on:

- dead code: the operators are effects for torch.fx, and their kernels have side effects for inductor's scheduler;
- fusion: an operator reads memory that is real in any case (what the forward graph saves, what the backward graph
  is given), and nothing waits for it, so the same kernels come out as without it, with the same bits;
- order: for that reason the scheduler may move an operator. `Place`, the last pass over its list, puts each one
  where it belongs: a pre-eviction right behind the last kernel that uses the memory, a prefetch before the first
  kernel of what the graph has behind it.

Each has a `uuid` of this package's sources and the settings, and so has what inductor and AOTAutograd keep on
disk: other settings, another version, or no pass at all never meet.
"""

import functools
import hashlib
from pathlib import Path

from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config, custom_graph_pass, ir
from torch._inductor.custom_graph_pass import CustomGraphPass, CustomPartitionerFn
from torch._inductor.lowering import register_lowering
from torch._inductor.virtualized import V

from . import insertion, operators

# Before torch 2.12 any function is one, and what inductor keeps on disk is found by how it is pickled.
CustomSchedulerPass = getattr(custom_graph_pass, "CustomSchedulerPass", object)


@functools.lru_cache(maxsize=None)
def _sources():
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class _Identified:
    """What inductor keeps on disk is found by this, and by nothing else that may change while it compiles."""

    def __init__(self, settings, inner=()):
        self.settings, self.inner = settings, inner

    def uuid(self):
        """None where what the user has set has none: then nothing is kept."""
        inner = [one.uuid() if hasattr(one, "uuid") else None for one in self.inner]
        if None in inner:
            return None
        return f"spillway.autovm.{type(self).__name__}:{_sources()}:{self.settings!r}:{inner}"

    def __reduce__(self):
        return (str, (self.uuid(),))

    def __deepcopy__(self, memo):
        return self


class Partitioner(_Identified, CustomPartitionerFn):
    """inner: the user's own partitioner, or nothing for inductor's."""

    def __init__(self, settings, inner, decided):
        super().__init__(settings, _listed(inner))
        self.decided = decided  # called with each pair

    def __call__(self, gm, joint_inputs, **kwargs):
        (partition,) = self.inner or (min_cut_rematerialization_partition,)
        forward, backward = partition(gm, joint_inputs, **kwargs)
        self.decided(insertion.decide(forward, backward, kwargs["num_fwd_outputs"], self.settings))
        return forward, backward


class Insert(_Identified, CustomGraphPass):
    """inner: the user's own passes, which come before. One pass for all: torch 2.11 takes no list."""

    def __call__(self, graph):
        for one in self.inner:
            one(graph)
        insertion.insert(graph.owning_module)


class Place(_Identified, CustomSchedulerPass):
    def __call__(self, nodes):
        return place(nodes)


def _listed(passes):
    return list(passes) if isinstance(passes, (list, tuple)) else [passes] if passes is not None else []


def config_patches(settings, decided):
    """For compile_fx. What the user has set there stays, before ours."""
    order = list(config.reorder_for_compute_comm_overlap_passes
                 if config.reorder_for_compute_comm_overlap else [])
    return {
        "custom_partitioner_fn": Partitioner(settings, config.custom_partitioner_fn, decided),
        "post_grad_custom_post_pass": Insert(settings, _listed(config.post_grad_custom_post_pass)),
        "reorder_for_compute_comm_overlap": True,
        "reorder_for_compute_comm_overlap_passes": [*order, Place(settings)],
    }


# --- Kernels -----------------------------------------------------------------------------------------------------


class MemoryOperation(ir.FallbackKernel):
    """One of the operators in inductor's list of kernels."""

    def __init__(self, overload, buffer, device, at):
        super().__init__(ir.NoneLayout(device=device), overload, (buffer,), (),
                         lambda tensors, constants: (tensors, {}))
        self.at = at  # the operator's node in the graph

    def has_side_effects(self):
        return True


def _memory_of(tensor):
    """The buffer that a tensor lies in, whatever view of it this is."""
    tensor.realize()
    inner = tensor
    while isinstance(inner, (ir.BaseView, ir.MutableBox)):
        inner = inner.data
    return inner


def _lower(overload):
    @register_lowering(overload, type_promotion_kind=None)
    def lowering(tensor):
        MemoryOperation(overload, _memory_of(tensor), tensor.get_device(), V.graph.current_node)


for _overload in operators.ALL:
    _lower(_overload)


# --- Order -------------------------------------------------------------------------------------------------------


def place(nodes):
    """The scheduler's list with each memory operation at its place."""
    kernels = [node for node in nodes if not isinstance(node.node, MemoryOperation)]
    if len(kernels) == len(nodes):
        return nodes
    order = {node: at for at, node in enumerate(V.graph.graph.nodes)}
    times = [_time_of(kernel, order) for kernel in kernels]
    users_of = _users_of(kernels)
    before = [[] for _ in range(len(kernels) + 1)]
    for node in sorted((node for node in nodes if isinstance(node.node, MemoryOperation)),
                       key=lambda node: order[node.node.at]):
        users = sorted({at for one in node.read_writes.reads for at in users_of.get(one.name, ())})
        if node.node.op_overload is operators.PRE_EVICT:
            at = users[-1] + 1 if users else len(kernels)
        else:
            later = (at for at, time in enumerate(times) if time > order[node.node.at])
            at = min(next(later, len(kernels)), users[0] if users else len(kernels))
        before[at].append(node)
    return [node for at, here in enumerate(before) for node in [*here, *kernels[at:at + 1]]]


def _time_of(kernel, order):
    """The last of the graph's nodes that a kernel computes; what it takes in was inlined into it."""
    return max((order.get(origin, -1) for part in kernel.get_nodes() if part.node is not None
                for origin in part.node.get_origins()), default=-1)


def _users_of(kernels):
    """The places of the kernels that use each buffer, by its name."""
    users_of = {}
    for at, kernel in enumerate(kernels):
        renames = kernel.scheduler.mutation_real_name
        names = {dependency.name for dependency in kernel.read_writes.reads_and_writes()}
        for name in names | {renames.get(name, name) for name in names}:
            users_of.setdefault(name, []).append(at)
    return users_of
