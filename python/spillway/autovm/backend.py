"""torch.compile(model, backend="spillway").

options: {"device_memory": the budget, as text or bytes; by default that of `spillway run`,
          "size_threshold": bytes, "distance": operations; by default both are tuned,
          "then": "inductor" (the default), "aot_eager" or "eager"}; others go to inductor, as `mode` does.
"""

import os

import torch

from . import insertion, sizes
from .estimate import Times
from .insertion import Settings

_MOST_REPORTS = 64
_reports = []
_OWN = ("device_memory", "size_threshold", "distance", "then", "memory_bytes_per_s", "link_bytes_per_s")


def reports():
    """What was decided, for each pair of graphs that this process has compiled, the newest last. What comes out of
    a cache on disk was decided before, and has none."""
    return list(_reports)


def _keep(report):
    _reports.append(report)
    del _reports[:-_MOST_REPORTS]


def settings_from(device_memory=None, size_threshold=None, distance=None, memory_bytes_per_s=None,
                  link_bytes_per_s=None):
    """None where no budget is known. Raises ValueError for what cannot be read."""
    if device_memory is None:
        device_memory = os.environ.get("SPILLWAY_DEVICE_MEMORY")
    if device_memory is None:
        return None
    times = None
    if memory_bytes_per_s or link_bytes_per_s:
        times = Times(memory_bytes_per_s or Times.memory_bytes_per_s, link_bytes_per_s or Times.link_bytes_per_s)
    return Settings(sizes.parse_bytes(device_memory),
                    None if size_threshold is None else sizes.parse_bytes(size_threshold),
                    None if distance is None else int(distance), times)


def spillway(module, example_inputs, *, mode=None, options=None):
    options = dict(options or {})
    then = options.pop("then", "inductor")
    own = {name: options.pop(name) for name in _OWN if name in options}
    settings = settings_from(**own)
    if then not in ("inductor", "aot_eager", "eager"):
        raise ValueError(f"backend spillway: 'then' is {then!r}; it can be inductor, aot_eager or eager")
    if settings is None:
        _keep(insertion.Report(["nothing is inserted: no budget is known, since this process does not run under "
                                "`spillway run` and the option device_memory is not given"]))
    if then == "inductor":
        return _inductor(module, example_inputs, settings, mode, options)
    if options or mode:
        raise ValueError(f"backend spillway: inductor's options and modes have no meaning with then={then!r}")
    return _aot_eager(module, example_inputs, settings) if then == "aot_eager" else _eager(module, settings)


def _inductor(module, example_inputs, settings, mode, options):
    from torch._inductor import compile_fx, list_mode_options

    patches = {**(list_mode_options(mode) if mode else {}), **options}
    if settings is not None:
        from . import inductor

        with torch._inductor.config.patch(patches):
            own = inductor.config_patches(settings, lambda pair: _keep(pair.report))
        patches = {**patches, **own}
    return compile_fx.compile_fx(module, example_inputs, config_patches=patches or None)


def _aot_eager(module, example_inputs, settings):
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def partition(joint, inputs, **kwargs):
        forward, backward = min_cut_rematerialization_partition(joint, inputs, **kwargs)
        if settings is not None:
            _keep(insertion.decide(forward, backward, kwargs["num_fwd_outputs"], settings).report)
        return forward, backward

    def compile_one(graph, inputs):
        insertion.insert(graph)
        return boxed_nop(graph, inputs)

    return aot_autograd(fw_compiler=compile_one, bw_compiler=compile_one, partition_fn=partition,
                        keep_inference_input_mutations=True)(module, example_inputs)


def _eager(module, settings):
    if settings is not None and _has_sizes(module):
        _keep(insertion.one_graph(module, settings))
    return module.forward


def _has_sizes(module):
    """Dynamo's graphs have their fake tensors under another name."""
    for node in module.graph.nodes:
        if "val" not in node.meta and "example_value" in node.meta:
            node.meta["val"] = node.meta["example_value"]
    return any("val" in node.meta for node in module.graph.nodes)


def register():
    """From a source tree; of an installed package PyTorch knows by itself (pyproject.toml)."""
    from torch._dynamo import register_backend
    from torch._dynamo.backends import registry

    if "spillway" not in registry._COMPILER_FNS:
        register_backend(spillway, name="spillway")
