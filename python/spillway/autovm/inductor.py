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
from torch._inductor import config, ir
from torch._inductor.custom_graph_pass import CustomGraphPass, CustomPartitionerFn, CustomSchedulerPass
from torch._inductor.lowering import register_lowering
from torch._inductor.virtualized import V

from . import insertion, operators


@functools.lru_cache(maxsize=None)
def _sources():
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class _Identified:
    """What inductor keeps on disk is found by this, and by nothing else that may change while it compiles."""

    def __init__(self, settings, inner=None):
        self.settings, self.inner = settings, inner

    def uuid(self):
        inner = self.inner.uuid() if hasattr(self.inner, "uuid") else repr(self.inner)
        return f"spillway.autovm.{type(self).__name__}:{_sources()}:{self.settings!r}:{inner}"

    def __reduce__(self):
        return (str, (self.uuid(),))

    def __deepcopy__(self, memo):
        return self


class Partitioner(_Identified, CustomPartitionerFn):
    """inner: the user's own partitioner, or None for inductor's."""

    def __init__(self, settings, inner, decided):
        super().__init__(settings, inner)
        self.decided = decided  # called with each pair

    def __call__(self, gm, joint_inputs, **kwargs):
        partition = self.inner or min_cut_rematerialization_partition
        forward, backward = partition(gm, joint_inputs, **kwargs)
        self.decided(insertion.decide(forward, backward, kwargs["num_fwd_outputs"], self.settings))
        return forward, backward


class Insert(_Identified, CustomGraphPass):
    def __call__(self, graph):
        insertion.insert(graph.owning_module)


class Place(_Identified, CustomSchedulerPass):
    def __call__(self, nodes):
        return place(nodes)


def config_patches(settings, decided):
    """For compile_fx. What the user has set there stays, before ours."""
    after = config.post_grad_custom_post_pass
    after = list(after) if isinstance(after, (list, tuple)) else [after] if after is not None else []
    order = list(config.reorder_for_compute_comm_overlap_passes
                 if config.reorder_for_compute_comm_overlap else [])
    return {
        "custom_partitioner_fn": Partitioner(settings, config.custom_partitioner_fn, decided),
        "post_grad_custom_post_pass": [*after, Insert(settings)],
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
    before = [[] for _ in range(len(kernels) + 1)]
    for node in sorted((node for node in nodes if isinstance(node.node, MemoryOperation)),
                       key=lambda node: order[node.node.at]):
        users = [at for at, kernel in enumerate(kernels) if _uses(kernel, node)]
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


def _uses(kernel, operation):
    names = {dependency.name for dependency in operation.read_writes.reads}
    mine = {dependency.name for dependency in kernel.read_writes.reads_and_writes()}
    renames = kernel.scheduler.mutation_real_name
    return bool(names & (mine | {renames.get(name, name) for name in mine}))
