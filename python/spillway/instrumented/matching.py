"""Which kernel of the plan an operator is, and which tensor of the plan lies where.

Kernels come in the order of the plan. An operator is the next kernel if it has that name and its storages can be the
kernel's tensors: those that are known lie where they lay, the others have the sizes of storages that are nobody's yet.
Of several of one size the order of the operands decides. Only storages of 1 MiB and more count, since recordings on
the host have no smaller ones; kernels that use none of these are passed by.

A trace of `record --without-gpu` may have several kernels for one operator, or those of other operators that it
consists of. Such a group is taken as a whole, with what lives only within it. Steps (`memset`, `copy in`) have the
name of no operator: they belong to the one that they stand in.
"""

LEAST_BYTES = 1 << 20
_PAGE_BYTES = 4096  # kernel-trace/1 has whole ones
_MOST_KERNELS = 64  # of one operator
_COPIES = "copy in", "copy out", "copy within"  # all that an operator does


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

    @property
    def prepares(self):
        """A step that other kernels of its operator follow."""
        return "::" not in self.name and not self.name.startswith(_COPIES)


def _plain(name):
    """In place or not is one operator: autograd's additions differ in that while a mode sees them."""
    return name.partition(" ")[0].rstrip("_")


def _is_of(kernel, name, composite):
    return composite or "::" not in kernel.name or _plain(kernel.name) == _plain(name)


def _same_size(tensor, nbytes):
    return -(-nbytes // _PAGE_BYTES) == -(-tensor.size_bytes // _PAGE_BYTES)


class Matcher:
    def __init__(self, program):
        self.file = program.file
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
        place = self.next
        while place < len(self.matched):
            kernel, behind = self.matched[place], self._behind_last(place)
            if behind is None and kernel.changes:
                raise self._error(f"kernel {kernel.number}, {kernel.name}, is next, and the iteration has ended")
            place = behind or place + 1

    def operator(self, name, composite, storages):
        """storages: {address: [nbytes, changed]} of at least 1 MiB. Returns the calls that follow, in order."""
        begin, group = self._first_group(name, composite, storages)
        if group is None:
            if any(changed for _, changed in storages.values()):
                raise self._unexpected(name, storages)
            return []  # it only reads, and is not in the plan
        calls = self._pass(begin)
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

    def _first_group(self, name, composite, storages):
        """(its first kernel, the group or None). Kernels before it may be the last ones of the operator before. Of
        several groups, one is preferred that has all storages; then one that writes what changes; then one whose
        first kernel has this operator's name."""
        best, best_rank = (self.next, None), None
        begin = self.next
        while begin is not None and begin < len(self.matched):
            group = self._group(begin, name, composite, storages, ())
            if group is not None and not self._only_steps(begin, group[1], composite):
                rank = self._rank(begin, group, name, storages)
                if best_rank is None or rank > best_rank:
                    best, best_rank = (begin, group), rank
                if all(rank):
                    break
            begin = self._behind_last(begin)
        return best

    def _only_steps(self, begin, behind, composite):
        """Whether all of these kernels are steps: then they are no operator, unless it consists of others."""
        kernels = self.matched[begin:behind]
        return not composite and all("::" not in kernel.name and kernel.changes for kernel in kernels)

    def _rank(self, begin, group, name, storages):
        places, behind = group
        kernels = self.matched[begin:behind]
        has, writes = ({places[tensor][0] if tensor in places else tensor.address for tensor in tensors}
                       for tensors in ([tensor for kernel in kernels for tensor in kernel.operands],
                                       [tensor for kernel in kernels for tensor in kernel.writes]))
        changes = any(changed and address in writes for address, (_, changed) in storages.items())
        return has.issuperset(storages), changes, _is_of(kernels[0], name, False)

    def _pass(self, behind):
        calls = []
        for place in range(self.next, behind):
            calls += self.calls[place]
            self._release(self.matched[place], place)
        self.next = behind
        return calls

    def _behind_last(self, place):
        """Behind this kernel, and those that it takes with it, if they can be further ones of the operator before,
        which had all that it changes already; else None."""
        group = self._group(place, *self.last, self.last[2])
        return None if group is None else group[1]

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
        group = self._closed(begin, begin, name, composite, storages, used)
        named = begin
        while named < len(self.matched) - 1 and self.matched[named].prepares:
            named += 1
        if group is None or group[1] > named or not _is_of(self.matched[named], name, False):
            return group
        # What is prepared belongs to the operator; it may live only within, or be the result.
        last = max([named, *(tensor.last for kernel in self.matched[begin:named] for tensor in kernel.writes
                             if tensor.large and not tensor.persistent and tensor.first >= begin)])
        return (self._closed(begin, last, name, composite, storages, used)
                or self._closed(begin, named, name, composite, storages, used) or group)

    def _closed(self, begin, last, name, composite, storages, used):
        """As `_group`, of at least the kernels up to `last`: with all that use what lives only within the operator."""
        while True:
            places, within, least = {}, [], last
            for place in range(begin, last + 1):
                if place == len(self.matched) or place - begin >= _MOST_KERNELS:
                    return None
                kernel = self.matched[place]
                if not _is_of(kernel, name, composite):
                    return None
                for tensor in kernel.operands:
                    if tensor in places or tensor.address in storages:
                        continue
                    if tensor.address is not None and not tensor.persistent:
                        return None  # it was born elsewhere
                    born_here = not tensor.persistent and tensor.first >= begin
                    if born_here and tensor.last <= last:
                        within.append((tensor, kernel))
                    elif not self._claim(tensor, kernel, begin, storages, places, used):
                        if not born_here:
                            return None
                        least = max(least, tensor.last)
            if least == last:
                break
            last = least
        for tensor, kernel in within:  # results that nobody uses are such as well
            self._claim(tensor, kernel, begin, storages, places, used)
        return places, last + 1

    def _claim(self, tensor, kernel, begin, storages, places, used):
        """Whether one of the storages can be the tensor, and is now: rather one that changes, if the kernel writes it,
        and else one that does not."""
        if tensor in places:
            return True
        claimed = {other.address for other in kernel.operands}
        claimed.update(used, (address for address, _ in places.values()))
        written = tensor in kernel.writes
        for address, (nbytes, changed) in sorted(storages.items(), key=lambda item: item[1][1] != written):
            owner = self.owners.get(address)
            # Kernels before `begin` may not be passed yet; what dies with them is dead.
            free = owner is None or not owner.persistent and owner.last < begin
            if free and address not in claimed and _same_size(tensor, nbytes):
                places[tensor] = address, nbytes
                return True
        return False

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
