"""What the run of this process has counted so far: the numbers of its record (docs/python.md).

The preloaded library makes them, with the function that it makes the record with:

    size_t spillway_record_so_far(char* to, size_t bytes);  // JSON; how long all of it is
"""

import ctypes
import json

# Of a whole record only.
_AT_THE_END = ("version", "command", "longest_waits", "waits_by_module", "timeline")


def stats():
    """A dictionary with the record's keys; None where this process does not run under Spillway.

    Before the first large allocation, and in the child of a fork, everything is 0.
    """
    ask = getattr(ctypes.CDLL(None), "spillway_record_so_far", None)
    if ask is None:
        return None
    ask.argtypes, ask.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    bytes_ = 4096
    while True:
        room = ctypes.create_string_buffer(bytes_)
        needed = ask(room, bytes_)
        if needed < bytes_:
            record = json.loads(room.value)
            return {key: value for key, value in record.items() if key not in _AT_THE_END}
        bytes_ = needed + 256  # it may grow meanwhile
