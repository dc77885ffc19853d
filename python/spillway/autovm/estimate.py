"""How long a step takes under a plan, and the thresholds with which it takes least (thesis, section 6.5).

An operation takes as long as its working set needs to pass through device memory, if its run time is not
known. Each direction of the link carries one copy at a time. What an operation lacks is paged in while it
waits, at the share of the link's speed that the thesis measured (section 4.3), and takes the place of what was
pre-evicted, in that order, else of what was used longest ago, which is first copied down. A prefetch takes the place
of what was pre-evicted only. Where the processor computes it copies as well, and computing loses that time.
"""

import os

from collections import OrderedDict
from dataclasses import dataclass, replace

from . import policy

# Demand paging against prefetches, section 4.3: 9 GB/s of 12.5.
FAULT_SHARE = 0.72
# Thresholds that are tried, beside "nothing moves"; of each kind half as many where both are tuned.
_MOST_THRESHOLDS = 12


@dataclass(frozen=True)
class Times:
    """Times by bytes. The defaults are those of a processor's memory, as the host platform copies it.
    copying_share: what computing loses of a copy's time; on a GPU nothing, on a processor a core of all."""

    memory_bytes_per_s: float = 10e9
    link_bytes_per_s: float = 4e9
    copying_share: float = 0.0

    def of_operation(self, operation, storages):
        if operation.runtime_ns is not None:
            return operation.runtime_ns
        return policy.working_set_bytes(operation, storages) / self.memory_bytes_per_s * 1e9

    def of_copy(self, size_bytes):
        return size_bytes / self.link_bytes_per_s * 1e9

    @staticmethod
    def of(device_type):
        """Rough figures of a processor, or of a large GPU behind a PCIe 5 link."""
        if device_type == "cuda":
            return Times(2e12, 50e9)
        return Times(copying_share=1 / len(os.sched_getaffinity(0)))


class _Device:
    def __init__(self, storages, budget_bytes, times):
        self.storages, self.budget_bytes, self.times = storages, budget_bytes, times
        self.now_ns = self.out_free_ns = self.in_free_ns = 0.0
        self.resident = OrderedDict()  # storage: when it is there; the least recently used first
        self.copied_ns = {}            # storage: when it is below as well
        self.given_up = OrderedDict()  # those of `resident` that were pre-evicted, in that order
        self.used_bytes = 0

    def put(self, storage, ready_ns):
        self.resident[storage] = ready_ns
        self.used_bytes += self.storages[storage].size_bytes

    def leave(self, storage):
        del self.resident[storage]
        self.given_up.pop(storage, None)
        self.used_bytes -= self.storages[storage].size_bytes

    def copy(self, size_bytes, free_ns, speed=1.0):
        """When it has ended, on a direction of the link that is free from then on."""
        ended_ns = max(free_ns, self.now_ns) + self.times.of_copy(size_bytes) / speed
        self.now_ns += self.times.copying_share * self.times.of_copy(size_bytes)
        return ended_ns

    def copy_down(self, storage):
        if storage not in self.copied_ns:
            self.out_free_ns = self.copy(self.storages[storage].size_bytes, self.out_free_ns)
            self.copied_ns[storage] = self.out_free_ns

    def make_room(self, size_bytes, keep, waits):
        """False where there is none without waiting, or none at all."""
        while self.used_bytes + size_bytes > self.budget_bytes:
            victim = next((storage for storage in self.given_up if storage not in keep), None)
            if not waits and (victim is None or self.copied_ns[victim] > self.now_ns):
                return False
            if victim is None:
                victim = next((storage for storage in self.resident if storage not in keep), None)
                if victim is None:
                    return False
                self.copy_down(victim)
            self.now_ns = max(self.now_ns, self.copied_ns[victim])
            self.leave(victim)
        return True

    def fetch(self, storage, keep, on_demand):
        size_bytes = self.storages[storage].size_bytes
        if not self.make_room(size_bytes, keep, on_demand) and not on_demand:
            return False
        self.in_free_ns = self.copy(size_bytes, self.in_free_ns, FAULT_SHARE if on_demand else 1.0)
        self.put(storage, self.in_free_ns)
        return True

    def use(self, storage, keep, is_new):
        if storage not in self.resident:
            if is_new:
                self.make_room(self.storages[storage].size_bytes, keep, True)
                self.put(storage, self.now_ns)
            else:
                self.fetch(storage, keep, True)
        self.now_ns = max(self.now_ns, self.resident[storage])
        self.resident.move_to_end(storage)
        self.given_up.pop(storage, None)


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
    ahead = {}  # prefetches that have begun, or wait for room: in the order of their uses
    for at, operation in enumerate(operations):
        keep = set(operation.uses)
        ahead.update(dict.fromkeys(before.get(at, ())))
        for storage in ahead:
            if storage not in device.resident and not device.fetch(storage, keep | ahead.keys(), False):
                break
        for storage in dict.fromkeys(operation.uses):
            device.use(storage, keep, first[storage] == at and not storages[storage].is_input)
        for storage in keep:
            ahead.pop(storage, None)
        device.now_ns += times.of_operation(operation, storages)
        for storage in after.get(at, ()):
            if storage in device.resident:
                device.copy_down(storage)
                device.given_up[storage] = True
        for storage in keep:
            if last[storage] == at and storage in device.resident and not storages[storage].is_output:
                device.leave(storage)
    return device.now_ns


def _evenly(values, most):
    return values[::max(1, -(-len(values) // most))]


def tune(operations, storages, budget_bytes, limits, times, tunes_distance=True):
    """The limits that give the shortest estimate, none below `limits`, and what was tried, as [(limits,
    estimated_ns)]: thresholds of size and, for each, of distance, since of tensors of one size those that are needed
    last had better leave, and no more than must. Of equals the last, which is the largest and moves least."""
    chosen, _ = policy.choose(operations, storages, limits)
    if not chosen:
        return limits, [(limits, None)]
    most = _MOST_THRESHOLDS // 2 if tunes_distance else _MOST_THRESHOLDS
    sizes = sorted({storages[storage].size_bytes for storage in chosen})
    candidates = []
    for size in _evenly(sizes, most):
        distances = sorted({gap.distance for storage, gap in chosen.items() if storages[storage].size_bytes >= size})
        candidates += [policy.Limits(size, distance) for distance in
                       (_evenly(distances, most) if tunes_distance else [limits.distance])]
    candidates.append(replace(limits, size_bytes=sizes[-1] + 1))
    tried = []
    for one in candidates:
        plan = policy.make_plan(operations, storages, budget_bytes, one)
        tried.append((one, estimated_ns(operations, storages, plan, budget_bytes, times)))
    return min(reversed(tried), key=lambda entry: entry[1])[0], tried
