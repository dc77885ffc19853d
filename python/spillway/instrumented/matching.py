"""Which kernel of the plan an operator is, and which tensor of the plan lies where.

Kernels come in the order of the plan. An operator is the next kernel if it has that name and its storages can be the
kernel's tensors: those that are known lie where they lay, the others have the sizes of storages that are nobody's yet.
Of several of one size the order of the operands decides. Only storages of 1 MiB and more count, since recordings on
the host have no smaller ones; kernels that use none of these are passed by.

A trace of `record --without-gpu` may have several kernels for one operator, or those of other operators that it
consists of. Such a group is taken as a whole, with what lives only within it. Fills and copies (`memset`, `copy in`)
have the name of no operator: they belong to the one that they stand in.
"""

LEAST_BYTES = 1 << 20
_PAGE_BYTES = 4096  # kernel-trace/1 has whole ones
_MOST_KERNELS = 64  # of one operator


class PlanError(RuntimeError):
    """A plan that cannot be followed: the message is one line."""


class Tensor:
    __slots__ = ("number", "size_bytes", "persistent", "freed", "first", "last", "address", "nbytes")

    def __init__(self, number, size_bytes, persistent):
        self.number, self.size_bytes, self.persistent = number, size_bytes, persistent
        self.freed = False  # in the file
        self.first = self.last = None  # its kernels, by their places in `matched`
        self.address = None  # where it lies; None: not known
        self.nbytes = 0  # of the storage there

    @property
    def large(self):
        return self.size_bytes >= LEAST_BYTES


class Kernel:
    def __init__(self, number, name, reads, writes, calls):
        self.number, self.name = number, name
        self.reads, self.writes = tuple(reads), tuple(writes)
        self.calls = calls  # before it
        self.operands = [tensor for tensor in dict.fromkeys((*reads, *writes)) if tensor.large]

    @property
    def changes(self):
        return any(tensor.large for tensor in self.writes)


def _plain(name):
    """In place or not is one operator: autograd's additions differ in that while a mode sees them."""
    return name.partition(" (")[0].rstrip("_")


def _is_of(kernel, name, composite):
    return composite or "::" not in kernel.name or _plain(kernel.name) == _plain(name)


def _same_size(tensor, nbytes, slack_bytes):
    """A device's allocator may give more than was asked for."""
    wanted, given = -(-nbytes // _PAGE_BYTES), -(-tensor.size_bytes // _PAGE_BYTES)
    return wanted <= given <= wanted + slack_bytes // _PAGE_BYTES


class Matcher:
    def __init__(self, program, slack_bytes):
        """slack_bytes: by how much a tensor may be larger than its storage."""
        self.file = program.file
        self.slack_bytes = slack_bytes
        self.matched = [kernel for kernel in program.kernels if kernel.operands]
        if not self.matched:
            raise PlanError(f"{self.file}: no kernel uses a tensor of 1 MiB or more; nothing is to be planned")
        # Behind each of these kernels: the calls until the next of them has been reached, as (kernel, call).
        self.first_calls, self.calls = [], [[] for _ in self.matched]
        self._place_calls(program.kernels)
        self.next = 0
        self.owners = {}  # by address: the tensor that lies there
        self.last = "", False, {}  # the operator that was matched last

    def _place_calls(self, kernels):
        place = -1
        for kernel in kernels:
            into = self.first_calls if place < 0 else self.calls[place]
            into += [(kernel.number, call) for call in kernel.calls]
            if kernel.operands:
                place += 1
                for tensor in kernel.operands:
                    tensor.first = place if tensor.first is None else tensor.first
                    tensor.last = place

    def begin(self):
        """An iteration begins: what was born in the one before is gone."""
        self.next = 0
        self.owners = {address: tensor for address, tensor in self.owners.items()
                       if tensor.persistent and tensor.address == address}
        for kernel in self.matched:
            for tensor in kernel.operands:
                if not tensor.persistent:
                    tensor.address = None

    def end(self):
        """Raises PlanError where the plan has kernels left that change something."""
        for kernel in self.matched[self.next:]:
            if kernel.changes and not self._of_last(kernel):
                raise self._error(f"kernel {kernel.number}, {kernel.name}, is next, and the iteration has ended")

    def operator(self, name, composite, storages):
        """storages: {address: [nbytes, changed]} of at least 1 MiB. Returns the calls that follow, in order."""
        calls, behind = [], self.next
        group = self._group(behind, name, composite, storages, ())
        while group is None and behind < len(self.matched) and self._of_last(self.matched[behind]):
            behind += 1
            group = self._group(behind, name, composite, storages, ())
        if group is None:
            if any(changed for _, changed in storages.values()):
                raise self._unexpected(name, storages)
            return calls  # it only reads, and is not in the plan
        calls += self._pass(behind)
        used = set()
        while group is not None:
            places, behind = group
            for tensor, (address, nbytes) in places.items():
                self._put(tensor, address, nbytes)
            used |= {tensor.address for kernel in self.matched[self.next:behind] for tensor in kernel.operands}
            calls += self._pass(behind)
            complete = all(address in used for address, (_, changed) in storages.items() if changed)
            group = None if complete else self._group(behind, name, composite, storages, used)
        self.last = name, composite, storages
        return calls

    def _pass(self, behind):
        calls = []
        for place in range(self.next, behind):
            calls += self.calls[place]
            self._release(self.matched[place], place)
        self.next = behind
        return calls

    def _of_last(self, kernel):
        """Whether it can be a further kernel of the operator before, which had all that it changes already."""
        name, composite, storages = self.last
        return _is_of(kernel, name, composite) and all(
            tensor.address in storages for tensor in kernel.operands)

    def _put(self, tensor, address, nbytes):
        if tensor.address is not None and self.owners.get(tensor.address) is tensor:
            del self.owners[tensor.address]
        tensor.address, tensor.nbytes = address, nbytes
        self.owners[address] = tensor

    def _release(self, kernel, place):
        for tensor in kernel.operands:
            if tensor.last == place and not tensor.persistent and self.owners.get(tensor.address) is tensor:
                del self.owners[tensor.address]

    def _group(self, begin, name, composite, storages, used):
        """The kernels from `begin` on that this operator is: ({tensor: (address, nbytes)}, the place behind them), or
        None. used: storages that are other kernels' of it."""
        places, last, place = {}, begin, begin
        while place <= last:
            if place == len(self.matched) or place - begin >= _MOST_KERNELS:
                return None
            kernel = self.matched[place]
            if not _is_of(kernel, name, composite):
                return None
            inner = self._fit(kernel, begin, place, storages, places, used)
            if inner is None:
                return None
            last = max(last, inner)
            place += 1
        return places, place

    def _fit(self, kernel, begin, place, storages, places, used):
        """Finds the kernel's tensors among the storages, into `places`. None: they are not there; else the last
        kernel that uses what lives only within the operator."""
        last = place
        claimed = {tensor.address for tensor in kernel.operands}
        claimed.update(used, (address for address, _ in places.values()))
        for tensor in kernel.operands:
            if tensor in places or tensor.address in storages:
                continue
            if tensor.address is not None and not tensor.persistent:
                return None  # it was born elsewhere
            found = self._nobodys(tensor, begin, storages, claimed)
            if found is not None:
                places[tensor] = found
                claimed.add(found[0])
            elif not tensor.persistent and tensor.first >= begin:
                last = max(last, tensor.last)
            else:
                return None
        return last

    def _nobodys(self, tensor, begin, storages, claimed):
        for address, (nbytes, _) in storages.items():
            owner = self.owners.get(address)
            # Kernels before `begin` may not be passed yet; what dies with them is dead.
            free = owner is None or not owner.persistent and owner.last < begin
            if free and address not in claimed and _same_size(tensor, nbytes, self.slack_bytes):
                return address, nbytes
        return None

    def _unexpected(self, name, storages):
        sizes = ", ".join(f"{nbytes / LEAST_BYTES:g} MiB" for nbytes, _ in storages.values())
        if self.next == len(self.matched):
            return self._error(f"all kernels have run, and {name} follows with {sizes}")
        kernel = self.matched[self.next]
        wants = ", ".join(f"{tensor.size_bytes / LEAST_BYTES:g} MiB" for tensor in kernel.operands)
        return self._error(f"kernel {kernel.number}, {kernel.name} with {wants}, is next, and the script runs {name} "
                           f"with {sizes}")

    def _error(self, what):
        return PlanError(f"spillway: {self.file}: {what}: the plan is that of another script, shape or version of "
                         "PyTorch; record this one, and plan it (spillway record, spillway plan --as torch)")
