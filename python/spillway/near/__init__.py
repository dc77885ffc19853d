"""Steps of PyTorch's optimizers by Spillway's kernel, with PyTorch's bits.

    optimizer = spillway.near.optimize(torch.optim.AdamW(model.parameters(), fused=True))
    print(optimizer.spillway)   # what is replaced, what is not, and why

rules.py        what Adam, AdamW, SGD and Adagrad keep, and in which way PyTorch computes them
choices.py      which groups and tensors are left to PyTorch, and why
memory.py       whether tensors of a step lie in each other
placement.py    where tensors lie: on the CPU, or on a GPU
lists.py        PyTorch's lists of a step, and what Spillway takes of them
replacement.py  the step itself
later.py        updates that run after step(), of tensors on a GPU
steps.py        the numbers of steps that lie on a device
gradients.py    gradients that are told of before step()
report.py       optimizer.spillway
trial.py        whether the bits are PyTorch's on this machine
everywhere.py   the same for all optimizers of a program, for `spillway run`
native.py       libspillway_near.so
"""


def optimize(optimizer, threads=None):
    """Has Spillway compute the steps of this torch.optim.Adam, AdamW, SGD or Adagrad, where its bits
    are PyTorch's; what it cannot, PyTorch goes on to compute.

    threads: how many compute; torch.get_num_threads() by default. Returns the optimizer, which has an
    attribute `spillway` then, the report. Copies and pickles of it are plain. Raises TypeError for
    what is no optimizer of PyTorch's, ValueError for such a number of threads, and OSError where
    Spillway's library is missing.
    """
    from .replacement import replace

    return replace(optimizer, threads)
