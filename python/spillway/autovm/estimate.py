"""How long a step takes under a plan, and the size threshold with which it takes least (thesis, section 6.5).

An operation takes as long as its working set needs to pass through device memory, if its run time is not
known. Each direction of the link carries one copy at a time. What an operation lacks is paged in while it
waits, at the share of the link's speed that the thesis measured (section 4.3), and takes the place of what was
pre-evicted, else of what was used longest ago, which is first copied down.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace

from . import policy

# Demand paging against prefetches, section 4.3: 9 GB/s of 12.5.
FAULT_SHARE = 0.72
# Thresholds that are tried, beside "nothing moves".
_MOST_THRESHOLDS = 12


@dataclass(frozen=True)
class Times:
    """Times by bytes. The defaults are those of a processor's memory, as the host platform copies it."""

    memory_bytes_per_s: float = 10e9
    link_bytes_per_s: float = 4e9

    def of(self, operation, storages):
        if operation.runtime_ns is not None:
            return operation.runtime_ns
        return policy.working_set_bytes(operation, storages) / self.memory_bytes_per_s * 1e9

    def of_copy(self, size_bytes):
        return size_bytes / self.link_bytes_per_s * 1e9


class _Device:
    def __init__(self, storages, budget_bytes, times):
        self.storages, self.budget_bytes, self.times = storages, budget_bytes, times
        self.now_ns = self.out_free_ns = self.in_free_ns = 0.0
        self.resident = OrderedDict()  # storage: when it is there; the least recently used first
        self.copied_ns = {}            # storage: when it is below as well
        self.used_bytes = 0

    def put(self, storage, ready_ns):
        self.resident[storage] = ready_ns
        self.used_bytes += self.storages[storage].size_bytes

    def leave(self, storage):
        del self.resident[storage]
        self.used_bytes -= self.storages[storage].size_bytes

    def copy_down(self, storage):
        self.out_free_ns = max(self.out_free_ns, self.now_ns) + self.times.of_copy(
            self.storages[storage].size_bytes)
        self.copied_ns[storage] = self.out_free_ns

    def make_room(self, size_bytes, keep, waits):
        """False where there is none without waiting, or none at all."""
        while self.used_bytes + size_bytes > self.budget_bytes:
            others = [storage for storage in self.resident if storage not in keep]
            copied = [storage for storage in others if storage in self.copied_ns]
            if copied:
                victim = min(copied, key=self.copied_ns.get)
                if not waits and self.copied_ns[victim] > self.now_ns:
                    return False
            elif others and waits:
                victim = others[0]
                self.copy_down(victim)
            else:
                return False
            self.now_ns = max(self.now_ns, self.copied_ns[victim])
            self.leave(victim)
        return True

    def fetch(self, storage, keep, on_demand):
        size_bytes = self.storages[storage].size_bytes
        if not self.make_room(size_bytes, keep, on_demand) and not on_demand:
            return
        self.in_free_ns = max(self.in_free_ns, self.now_ns) + self.times.of_copy(size_bytes) / (
            FAULT_SHARE if on_demand else 1.0)
        self.put(storage, self.in_free_ns)

    def use(self, storage, keep, is_new):
        if storage not in self.resident:
            if is_new:
                self.make_room(self.storages[storage].size_bytes, keep, True)
                self.put(storage, self.now_ns)
            else:
                self.fetch(storage, keep, True)
        self.now_ns = max(self.now_ns, self.resident[storage])
        self.resident.move_to_end(storage)


def estimated_ns(operations, storages, plan, budget_bytes, times):
    """Of one run through the sequence with this plan's insertions."""
    device = _Device(storages, budget_bytes, times)
    uses = policy.uses_of(operations, storages)
    first = {number: used[0] for number, used in enumerate(uses) if used}
    last = {number: used[-1] for number, used in enumerate(uses) if used}
    before, after = {}, {}
    for insertion in plan.insertions:
        places = after if insertion.kind == policy.PRE_EVICT else before
        places.setdefault(insertion.position, []).append(insertion.storage)
    for number, storage in enumerate(storages):
        if storage.is_input and number in first:
            if device.used_bytes + storage.size_bytes <= budget_bytes:
                device.put(number, 0.0)
            device.copied_ns[number] = 0.0
    ahead = set()
    for at, operation in enumerate(operations):
        keep = set(operation.uses)
        for storage in before.get(at, ()):
            if storage not in device.resident:
                device.fetch(storage, keep | ahead, False)
            ahead.add(storage)
        for storage in dict.fromkeys(operation.uses):
            device.use(storage, keep, first[storage] == at and not storages[storage].is_input)
        ahead -= keep
        device.now_ns += times.of(operation, storages)
        for storage in after.get(at, ()):
            if storage in device.resident:
                device.copy_down(storage)
        for storage in keep:
            if last[storage] == at and storage in device.resident and not storages[storage].is_output:
                device.leave(storage)
    return device.now_ns


def tune(operations, storages, budget_bytes, limits, times):
    """The limits with the size threshold that gives the shortest estimate, none below that of `limits`, and
    what was tried, as [(threshold, estimated_ns)]; of equals the largest, which moves least."""
    chosen, _ = policy.choose(operations, storages, limits)
    sizes = sorted({storages[storage].size_bytes for storage in chosen})
    step = max(1, -(-len(sizes) // _MOST_THRESHOLDS))
    thresholds = [*sizes[::step], sizes[-1] + 1] if sizes else [limits.size_bytes]
    tried = []
    for threshold in thresholds:
        plan = policy.make_plan(operations, storages, budget_bytes, replace(limits, size_bytes=threshold))
        tried.append((threshold, estimated_ns(operations, storages, plan, budget_bytes, times)))
    best = min(reversed(tried), key=lambda entry: entry[1])
    return replace(limits, size_bytes=best[0]), tried
