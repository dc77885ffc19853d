"""AutoVM (docs/python.md): a pass over PyTorch's graphs that inserts prefetches and pre-evictions.

    model = torch.compile(model, backend="spillway")    # `import spillway.autovm` first, from a source tree
    spillway.autovm.optimize(graph_module, device_memory="20GiB")
    print(spillway.autovm.explain(graph_module))

policy.py      what moves when: pure functions
estimate.py    how long a step takes, and the size threshold that follows from that
graph.py       what the policy wants to know of a torch.fx graph
insertion.py   the operators into the graphs, and the report
operators.py   torch.ops.spillway.prefetch and pre_evict
inductor.py    what keeps them and their order through inductor
backend.py     torch.compile's backend
"""

from . import backend, graph, insertion, operators  # noqa: F401, operators: torch.ops.spillway
from .backend import reports
from .insertion import Report

__all__ = ["Report", "explain", "optimize", "reports"]


def optimize(graph_module, example_inputs=None, device_memory=None, size_threshold=None, distance=None,
             memory_bytes_per_s=None, link_bytes_per_s=None):
    """Inserts memory operations into a torch.fx.GraphModule, in place, and returns it.

    graph_module      a joint graph of AOTAutograd, or any other; where it has no backward pass, tensors that are
                      not used for long are moved.
    example_inputs    what it is called with, where tracing has left no fake tensors in meta["val"].
    device_memory     the budget, as text ("20GiB") or bytes. Default: that of `spillway run`.
    size_threshold    smaller tensors stay; as text or bytes. Default: tuned by an estimate of the step.
    distance          so do tensors that are used again after fewer operations. Default: tuned, at least 10;
                      with a size_threshold 10.
    memory_bytes_per_s, link_bytes_per_s   for the estimate.

    Raises ValueError where no budget or no sizes are known. `explain` says what was inserted, and why.
    """
    settings = backend.settings_from(device_memory, size_threshold, distance, memory_bytes_per_s,
                                     link_bytes_per_s)
    if settings is None:
        raise ValueError("spillway.autovm.optimize(): give device_memory, such as '20GiB': this process does not "
                         "run under `spillway run`")
    if not graph.has_values(graph_module):
        if example_inputs is None:
            raise ValueError("spillway.autovm.optimize(): give example_inputs: the graph has no sizes "
                             "(meta['val'])")
        _propagate(graph_module, example_inputs)
    insertion.one_graph(graph_module, settings)
    return graph_module


def explain(graph_module):
    """The Report of a graph: str() of it has a line for each insertion, and for what stays."""
    report = graph_module.meta.get(insertion.KEY + "_report")
    if report is None:
        raise ValueError("spillway.autovm.explain(): the pass has not run on this graph")
    return report


def _propagate(graph_module, example_inputs):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    FakeTensorProp(graph_module, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*example_inputs)


backend.register()
