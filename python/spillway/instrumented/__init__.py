"""G10's instrumented program (figure 9) for PyTorch: what a file of `spillway plan --as torch` is made of.

    import plan                # the file
    plan.attach(optimizer)     # under `spillway run --policy base_uvm`

program.py    the calls that the file makes, and attach()
matching.py   which kernel of the plan an operator is, and which tensor of it lies where
follower.py   the mode that sees the operators, and the runtime's prefetch and pre-evict
"""

from .matching import PlanError
from .program import Program

__all__ = ["PlanError", "Program"]
