"""A training step without a GPU: what `spillway record --without-gpu` runs a script under.

target.py       the GPU that is stood in for
device.py       tensors on `meta` that say they are on `cuda`
autocast.py     torch.autocast("cuda") for them
choices.py      operators that choose by device, as on a GPU
cuda_module.py  torch.cuda: properties, streams, events, memory
values.py       what a script reads of the device
files.py        weights that are loaded, and what is not saved
host_memory.py  large tensors on the host, without memory
recorder.py     every operator, on its way to kernels; operator_facts.py what it asks of each,
                special_operators.py those that need more than others
kernels.py      which kernels an operator launches; products.py, pools.py, attention.py,
                reductions.py, multi_tensor.py those that need more words
storages.py     the device's memory
costs.py        how long a kernel takes
steps.py        where an iteration ends (repeated.py: without an optimizer); trace_file.py writes it

docs/traces.md says what is exact and what is not.
"""


def start():
    """Once torch has been imported, on the thread that runs the script."""
    import torch
    import torch._dynamo  # noqa: F401, which is imported in the middle otherwise, and finds stand-ins

    from . import autocast, choices, cuda_module, device, files, steps
    from .recorder import Recorder

    library = torch.library.Library("aten", "IMPL")
    everywhere = torch.library.Library("_", "IMPL")
    start.kept = library, everywhere
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        autocast.start(library)
        choices.start(library, everywhere)
    recorder = start.recorder = Recorder()
    device.start()
    cuda_module.start(recorder)
    files.start()
    steps.follow(recorder)
    recorder.__enter__()
