"""The iteration of a program without an optimizer: what is launched again and again, a token for instance.

The kernel that is launched least often, but more than three times, begins an iteration. Of the stretches
from one to the next those count that launch what most of them launch.
"""

import collections

_LEAST = 4  # that often, or it is no iteration


def _stretches(names):
    """(first, behind last) of each iteration, in order."""
    places = collections.defaultdict(list)
    for place, name in enumerate(names):
        places[name].append(place)
    often = [found for found in places.values() if len(found) >= _LEAST]
    if not often:
        return []
    # Of those that are equally rare the one that comes first.
    begins = min(often, key=lambda found: (len(found), found[0]))
    return list(zip(begins, begins[1:]))


def found(recorder, warm_up):
    """Leaves in the recorder the iteration behind `warm_up` others; False if there is none."""
    names = [kernel[0] for kernel in recorder.kernels]
    alike = collections.defaultdict(list)
    for first, last in _stretches(names):
        alike[tuple(names[first:last])].append((first, last))
    stretches = max(alike.values(), key=len, default=[])
    if len(stretches) < max(_LEAST - 1, warm_up + 1):
        return False
    first, last = stretches[warm_up]
    kept = recorder.kernels[first:last]
    recorder.kernels, recorder.first = kept, recorder.first + first
    recorder.living = {storage for _, _, reads, writes, _ in kept for storage in (*reads, *writes)
                       if storage.born < recorder.first}
    return True
