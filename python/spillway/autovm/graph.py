"""What the policy wants to know of a torch.fx graph: its operations, the storages that they use, and sizes.

A tensor is taken by the storage that it lies in, so views of one memory are one thing to move. Which tensors share
a storage is known from the fake tensors that tracing leaves in meta["val"], and from operators' schemas. What an
operator writes unseen by its schema, batch norm's running statistics, is an operand here like any other.
"""

import operator

import torch
from torch.utils import _pytree as pytree

from . import operators
from .policy import Operation, Storage

_NO_OPERATIONS = (operator.getitem, *operators.ALL)
# Below this the run's memory is not Spillway's, and a copy costs more than it frees.
SMALLEST_BYTES = 1 << 20
DYNAMIC = "its size is not known here (dynamic shape)"


def tensors_of(node):
    """The tensors that a node gives, as tracing has recorded them."""
    value = node.meta.get("val")
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def has_values(module):
    return all("val" in node.meta for node in module.graph.nodes if node.op not in ("output", "get_attr"))


def size_of(tensor):
    """Of its whole storage; None where that is no number."""
    size = tensor.untyped_storage().nbytes()
    return size if isinstance(size, int) else None


class Reading:
    """One graph. storages[i] is what the policy sees, nodes_of[i] the nodes whose tensor lies there;
    operations[i] is what it sees of nodes[i]."""

    def __init__(self, module, backward=None):
        """backward: whether all of it is a backward pass; None: as the nodes say."""
        self.storages, self.operations, self.nodes, self.nodes_of = [], [], [], []
        self._numbers = {}   # of a storage, by the address of its object
        self._of_node = {}
        self.order = {node: at for at, node in enumerate(module.graph.nodes)}
        placeholders = {node for node in module.graph.nodes if node.op in ("placeholder", "get_attr")}
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        self.outputs = pytree.tree_leaves(output.args[0])
        for node in module.graph.nodes:
            self._name(node, is_input=node in placeholders)
        self._share_by_schema(module.graph)
        self._outputs()
        begun = _backward_nodes(module.graph) if backward is None else set()
        for node in module.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output") or self._only_describes(node):
                continue
            operands = [number for argument in [*node.all_input_nodes, node]
                        for number in self._of_node.get(argument, ())]
            if operands:
                self.operations.append(Operation(node.name, tuple(dict.fromkeys(operands)),
                                                 bool(backward) or node in begun))
                self.nodes.append(node)

    def device_type(self):
        """Of most of its tensors: scalars may lie on the processor."""
        types = [tensor.device.type for node in self.order for tensor in tensors_of(node)]
        return max(set(types), key=types.count, default="cpu")

    def numbers_of(self, node):
        return self._of_node.get(node, ())

    def tensor_node(self, number, before):
        """A node that is one tensor there, not a tuple; the latest one before this place in the
        graph."""
        nodes = [node for node in self.nodes_of[number]
                 if isinstance(node.meta.get("val"), torch.Tensor) and self.order[node] < before]
        return nodes[-1] if nodes else None

    def _name(self, node, is_input):
        numbers = []
        for tensor in tensors_of(node):
            try:
                storage = tensor.untyped_storage()
            except (RuntimeError, NotImplementedError):
                continue  # sparse, and others without memory of their own
            key = storage._cdata
            if key not in self._numbers:
                size = size_of(tensor)
                stays = "a graph's input: weights and batches stay" if is_input else ""
                self._numbers[key] = len(self.storages)
                self.storages.append(Storage(node.name, size or 0, is_input, False,
                                             stays if size is not None else DYNAMIC))
                self.nodes_of.append([])
            number = self._numbers[key]
            numbers.append(number)
            self.nodes_of[number].append(node)
        self._of_node[node] = tuple(dict.fromkeys(numbers))

    def _share_by_schema(self, graph):
        """A pass may have given a view a fake tensor of its own."""
        for node in graph.nodes:
            base = _aliased(node)
            if base is None or len(self._of_node.get(base, ())) != 1:
                continue
            (into,) = self._of_node[base]
            for number in self._of_node[node]:
                if number != into:
                    self._merge(number, into)

    def _merge(self, number, into):
        self.nodes_of[into] = sorted([*self.nodes_of[into], *self.nodes_of[number]], key=self.order.get)
        self.nodes_of[number] = []
        for node, numbers in self._of_node.items():
            self._of_node[node] = tuple(dict.fromkeys(into if one == number else one for one in numbers))

    def _outputs(self):
        for node in self.outputs:
            for number in self._of_node.get(node, ()) if isinstance(node, torch.fx.Node) else ():
                self.change(number, is_output=True)

    def change(self, number, **changes):
        self.storages[number] = Storage(**{**self.storages[number].__dict__, **changes})

    def _only_describes(self, node):
        """Views, getitem and sizes: nothing is read."""
        if node.target in _NO_OPERATIONS or not tensors_of(node):
            return node.target in _NO_OPERATIONS or not _is_mutable(node)
        given = {number for argument in node.all_input_nodes for number in self._of_node.get(argument, ())}
        return bool(given) and set(self._of_node[node]) <= given and not _is_mutable(node)


def _is_mutable(node):
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    if node.op == "call_module":
        return True  # in place, where what it returns is what it was given
    if node.target is operator.setitem or bool(node.kwargs.get("inplace")):
        return True
    if node.op == "call_method":
        return node.target.endswith("_")
    name = getattr(node.target, "__name__", "")
    return name.endswith("_") or (name.startswith("i") and node.target is getattr(operator, name, None))


def _aliased(node):
    """The node of which this one is a view by its schema."""
    if not isinstance(node.target, torch._ops.OpOverload) or len(node.target._schema.returns) != 1:
        return None
    result = node.target._schema.returns[0].alias_info
    if result is None or result.is_write:
        return None
    for argument, value in zip(node.target._schema.arguments, node.args):
        if argument.alias_info is not None and argument.alias_info.before_set & result.before_set:
            return value if isinstance(value, torch.fx.Node) else None
    return None


def _backward_nodes(graph):
    """Of a joint graph: from the first node on that needs a tangent, or that AOTAutograd calls backward."""
    tainted, begun = set(), None
    for node in graph.nodes:
        if node.op == "placeholder":
            if node.name.startswith("tangents"):
                tainted.add(node)
            continue
        tagged = str(node.meta.get("partitioner_tag", "")).endswith("in_backward") or (
            node.meta.get("partitioner_tag") == "is_backward")
        if tagged or any(argument in tainted for argument in node.all_input_nodes):
            tainted.add(node)
            begun = begun if begun is not None else node
    nodes = list(graph.nodes)
    return set(nodes[nodes.index(begun):]) if begun is not None and begun.op != "output" else set()
