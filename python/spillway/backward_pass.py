"""The backward pass that a thread runs. PyTorch tells it by a function that is not public."""

from torch._C import _current_graph_task_id


def current():
    """Its number; None outside of one."""
    number = _current_graph_task_id()
    return None if number == -1 else number
